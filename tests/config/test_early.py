"""What cannot be is said from the settings alone, and leaves nothing."""

import inspect
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from lightning import Trainer
from omegaconf import OmegaConf

from isentropic.config import early
from isentropic.config.build import BadInput
from isentropic.config.compose import CONFIGS, check_jobs, compose, loader_of

LOADER = loader_of(CONFIGS)
GPU = early.has_gpu()


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("trainer.max_epochs=3", r"^trainer\.max_epochs=3 has no use here: rollouts are counted by rollout\.steps$"),
        ("+trainer.max_steps=100", "rollouts are counted by rollout.steps"),
        ("+trainer.min_epochs=2", "rollouts are counted by rollout.steps"),
        ("+trainer.limit_train_batches=10", "rollouts are counted by rollout.steps"),
        ("+trainer.limit_train_batches=0.5", "rollouts are counted by rollout.steps"),
        ("+trainer.limit_train_batches=1", "rollouts are counted by rollout.steps"),
        ("+trainer.overfit_batches=4", "debug=overfit"),
        ("trainer.num_sanity_val_steps=2", "evaluated before the first rollout anyway"),
        ("trainer.check_val_every_n_epoch=1", "trainer.val_check_interval"),
        ("+trainer.limit_val_batches=2", "rollout.evaluation.problems"),
        ("+trainer.limit_val_batches=false", "0 takes evaluations away"),
        ("trainer.use_distributed_sampler=true", "rollouts are made on the rank"),
        ("trainer.devices=0", r"^trainer\.devices=0 must be at least 1$"),
        ("trainer.devices=-2", "must be at least 1"),
        ("trainer.devices=[]", "must be at least 1"),
        ("trainer.num_nodes=0", r"^trainer\.num_nodes=0 must be at least 1$"),
        ("trainer.log_every_n_steps=0", "must be at least 1"),
        ("trainer.val_check_interval=0", "val_check_interval=0 is not a whole number of rollouts of at least 1"),
        ("trainer.val_check_interval=0.25", "is not a whole number of rollouts"),
        ("trainer.val_check_interval=-5", "is not a whole number of rollouts"),
        ("trainer.val_check_interval=true", "is not a whole number of rollouts"),
        ("rollout.steps=-1", r"^rollout\.steps=-1 must be at least 1$"),
        ("rollout.group_size=0", r"^rollout\.group_size=0 must be at least 1$"),
        ("hydra.searchpath=[file:///nowhere/at/all]", "hydra.searchpath holds /nowhere/at/all, which is no folder"),
    ],
)
def test_what_cannot_be_or_would_be_ignored_is_refused_before_any_import(line: str, sentence: str):
    with pytest.raises(BadInput, match=sentence):
        check_jobs(LOADER, "train", ["experiment=quickstart", line], sweep=False)


@pytest.mark.parametrize(
    "line", ["+trainer.limit_val_batches=0", "+trainer.max_time=01:00:00:00", "trainer.devices=-1"]
)
def test_what_the_trainer_obeys_is_let_through(line: str):
    check_jobs(LOADER, "train", ["experiment=quickstart", line], sweep=False)


def test_every_setting_that_has_no_use_is_one_of_the_trainer_s_and_its_default_says_nothing():
    parameters = inspect.signature(Trainer.__init__).parameters
    assert early.UNUSED.keys() <= parameters.keys()
    early.check_trainer({})


@pytest.mark.parametrize("folder", ["file/run", "file", "\0"])
def test_a_folder_that_cannot_be_made_is_refused_and_nothing_is_left(tmp_path: Path, folder: str):
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"^hydra\.run\.dir=.* cannot be a run's folder: "):
        early.check_run_folder("hydra.run.dir", f"{tmp_path}/{folder}")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_can_be_made_is_not_there_afterwards(tmp_path: Path):
    (tmp_path / "kept").mkdir()
    early.check_run_folder("hydra.run.dir", f"{tmp_path}/kept/a/b/c")
    early.check_run_folder("hydra.run.dir", f"{tmp_path}/kept")
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_another_s_is_refused(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(BadInput, match="cannot be a run's folder"):
        early.check_run_folder("hydra.run.dir", str(tmp_path / "run"))


@pytest.mark.skipif(GPU, reason="there is a GPU")
@pytest.mark.parametrize(
    "lines, sentence",
    [
        ("trainer=gpu", "trainer.accelerator=gpu is asked for, and this machine shows no GPU; trainer=cpu needs none"),
        ("trainer=fsdp", "trainer.accelerator=gpu is asked for"),
        ("trainer.accelerator=cuda", "trainer.accelerator=cuda is asked for"),
        ("sampler=vllm_gpu", "sampler.kv_cache_gib=null, as sampler=vllm_gpu has it, is a share of a GPU's memory"),
        ("sampler=vllm_server", "take sampler.transfer=file"),
        ("sampler=transformers sampler.device=cuda:0", "take sampler.device=cpu"),
    ],
)
def test_a_gpu_that_is_not_there_is_said(lines: str, sentence: str):
    with pytest.raises(BadInput, match=sentence):
        early.check_hardware(compose(LOADER, "train", ["experiment=quickstart", *lines.split()]))


@pytest.mark.skipif(GPU, reason="there is a GPU")
@pytest.mark.parametrize(
    "lines",
    [
        "",
        "trainer=ddp_cpu",
        "sampler=transformers",
        "sampler=vllm_server sampler.url=x",
        "sampler=vllm_gpu sampler.kv_cache_gib=0.1",
    ],
)
def test_what_needs_no_gpu_is_let_through(lines: str):
    early.check_hardware(compose(LOADER, "train", ["experiment=quickstart", *lines.split()]))


def test_a_folder_without_a_tokenizer_or_weights_is_no_model(tmp_path: Path):
    def told(**settings: str) -> str:
        cfg = OmegaConf.create({"policy": {"model": {"path": str(tmp_path)}}, "sampler": settings})
        with pytest.raises(BadInput) as caught:
            early.check_model_folder(cfg)
        return str(caught.value)

    assert "it holds no config (config.json)" in told()
    (tmp_path / "config.json").touch()
    assert "it holds no weights" in told()
    (tmp_path / "model.safetensors").touch()
    assert "it holds no tokenizer (tokenizer.json, " in told()
    (tmp_path / "tokenizer.json").touch()
    assert "sampler.path=elsewhere is another model than policy.model.path=" in told(path="elsewhere")
    early.check_model_folder(
        OmegaConf.create({"policy": {"model": {"path": str(tmp_path)}}, "sampler": {"path": f"{tmp_path}/."}})
    )


def test_a_folder_that_takes_no_links_or_has_no_room_is_refused(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    early.check_run_folder("hydra.run.dir", str(tmp_path / "run"))
    with pytest.raises(BadInput, match="run cannot be a run's folder: Operation not permitted"):
        early.check_run_folder("hydra.run.dir", str(tmp_path / "run"), links=True)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(BadInput, match="File too large"):
            early.check_run_folder("hydra.run.dir", str(tmp_path / "run"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["", 5, True, ["a"]])
def test_what_is_no_path_of_a_checkpoint_is_refused(value):
    with pytest.raises(BadInput, match=r"^ckpt_path=.* is no path of a checkpoint; null begins anew"):
        early.check_checkpoint(OmegaConf.create({"ckpt_path": value}))
    early.check_checkpoint(OmegaConf.create({"ckpt_path": None}))


def test_a_current_folder_that_is_gone_is_a_sentence(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from isentropic.train import train; train()"
    result = subprocess.run(
        [sys.executable, "-c", code, "experiment=quickstart"], cwd=gone, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(early.__file__).parents[2])},
    )  # fmt: skip
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("error: the current folder is gone (")
