"""What a user may get wrong: one sentence each, before an engine or a run folder exists."""

import importlib.util
import json
import re
import resource
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf

from isentropic.config.build import BadInput
from isentropic.config.compose import check_jobs, compose, loader_of
from isentropic.config.differences import contents_of, say_differences, settings_of
from isentropic.config.entry import CONFIGS
from isentropic.task import Problem
from isentropic.train import find_last, go_on, parts, train

LOADER = loader_of(CONFIGS)
START = "policy.reference=${policy.model.path}"
QUICKSTART = ["experiment=quickstart", "sampler=transformers"]


def refusal(*overrides: str) -> str:
    """What the entry point says, from the parts it is made of; no engine starts before `trainer.fit`."""
    lines = [*QUICKSTART, *overrides, "paths.output=nowhere"]
    with pytest.raises(BadInput) as caught:
        check_jobs(LOADER, "train", lines, sweep=False)
        cfg = compose(LOADER, "train", lines)
        with parts(cfg) as (_, policy, _data):
            go_on(cfg, policy.algorithm.control, settings_of(cfg))
    assert not Path("nowhere").exists()
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    "override, sentence",
    [
        ("task=cuontdown", "task=cuontdown does not exist: task can be arithmetic, calc, calculator, countdown, "),
        ("sampler=vlm", "sampler=vlm does not exist: sampler can be transformers, vllm, vllm_gpu or "),
        ("algorithm=grop", "algorithm=grop does not exist: algorithm can be "),
        ("algorithm/credit=[star]", "algorithm/credit=star does not exist: algorithm/credit can be "),
        ("policy.optimisation.lr=1", "policy.optimisation.lr does not exist: policy has the keys "),
        ("~callbacks.weight_sync", "callbacks.weight_sync is taken away, and without it the sampler keeps its first "),
        ("rollout.group_size=7", "rollout.batch_size=256 is not a multiple of rollout.group_size=7; the nearest that "),
        ("policy.optimization.micro_batch=48", "micro_batch=48 does not divide mini_batch=64; take a divisor of it"),
        ("policy.optimization.mini_batch=192", "mini_batch=192 does not divide rollout.batch_size=256; take a divisor"),
        ("policy.optimization.mini_batch=0", "mini_batch=0 and max_tokens_per_micro_batch=None must be at least 1"),
        ("policy.optimization.max_grad_norm=0", "max_grad_norm=0 must be above 0; .inf does not clip"),
        ("policy.optimization.warmup_ratio=1.5", "warmup_ratio=1.5 is a share of the optimizer steps, from 0 to 1"),
        ("policy.optimization.warmup_ratio=0.1", "warmup_steps=5 and warmup_ratio=0.1 say the same; set one of them "),
        ("policy/schedule=cosine policy.schedule.final=2", "policy.schedule.final=2 is a share; it must be from "),
        ("policy/schedule=cosin", "policy/schedule=cosin does not exist: policy/schedule can be constant, "),
        ("trainer.precision=bf16-mixed", "trainer.precision=bf16-mixed would cast the weights, which stay in fp32; "),
        ("+trainer.accumulate_grad_batches=2", "steps its optimizer itself; policy.optimization.mini_batch is the"),
        ("+trainer.gradient_clip_val=1.0", "steps its optimizer itself; policy.optimization.max_grad_norm clips"),
        ("callbacks=[default,early_stopping]", "monitor=eval/avg@8 would end the run by the test split, "),
        ("callbacks=[default,early_stopping] callbacks.early_stopping.monitor=loss", "loss is no score of an "),
        ("policy.size=128", "policy.size is gone; it is rollout.batch_size, which the policy reads from the rollout"),
        ("rollout.decoding.temperature=0", "temperature=0 is not above 0"),
        ("rollout.decoding.temperature=-1", "temperature=-1 is not above 0"),
        ("rollout.decoding.top_p=0.9", "rollout.decoding.top_p=0.9 truncates sampling, and the importance "),
        ("rollout.decoding.top_k=20", "rollout.decoding.top_k=20 truncates sampling, "),
        ("rollout.decoding.min_p=0.1", "rollout.decoding.min_p=0.1 truncates sampling, "),
        ("rollout.evaluation.count=8", "pass@16 needs rollout.evaluation.count=8 to be at least 16"),
        ("sampler.max_model_len=40", "it does not fit sampler.max_model_len=40; raise that to "),
        ("sampler.max_model_len=512", "sampler.max_model_len=512 is more than the 256 tokens that the model reads"),
        ("rollout.chat=true", "has no chat template; take chat=false"),
        ("policy.model.path=./nowhere", "policy.model.path: path=./nowhere is not a model folder, nor "),
        ("policy.model.path=no/where", "policy.model.path: path=no/where is not a model folder, nor "),
        ("trainer=ddp_cpu trainer.devices=3", "32 groups, which 3 ranks cannot share equally; "),
        ("trainer=ddp_cpu policy.optimization={micro_batch:1,mini_batch:1}", "mini_batch=1 is not a multiple of the 2"),
        (
            "algorithm.clipping.clip_ratio=0.1",
            "algorithm.clipping.clip_ratio does not exist: algorithm.clipping has the keys ceiling, high and low",
        ),
        ("algorithm/credit=[kl_cov]", "algorithm.credit.kl_cov ties tokens to the old policy and no "),
        ("algorithm/credit=[stare,truncated_importance] rollout.decoding.top_p=0.9", "top_p=0.9 truncates sampling, "),
        ("algorithm=tis rollout.decoding.top_k=20", "rollout.decoding.top_k=20 truncates sampling, and the "),
        ("algorithm=grpo_kl", "algorithm.penalty.kl measures the distance to a frozen policy, and policy.reference="),
        (f"algorithm=grpo_kl {START} algorithm.penalty.kl.weight=0", "penalty.kl.weight=0 must be above 0; for none, "),
        (START, "would be loaded and read by no part; measure the distance to it with algorithm/penalty=[kl], or "),
        ("algorithm=grpo_kl policy.reference=./nowhere", "policy.reference=./nowhere is not a model folder, nor "),
        ("algorithm=kl_cov algorithm/penalty=[]", "algorithm.credit.kl_cov ties tokens to the old policy and no "),
        ("algorithm/penalty=[anchor]", "algorithm.penalty.anchor charges tokens that a credit rule has tied to the "),
        ("reward=[]", "reward=[] leaves nothing to learn from; take reward=[correct]"),
        ("reward=[corect]", "reward=corect does not exist: reward can be correct, format, language, length, "),
        ("reward=[correct,trl]", "reward.trl.functions has no value; set it with reward.trl.functions=..."),
        ("reward=[trl] reward.trl.functions=[nowhere.f]", "reward.trl: nowhere.f cannot be imported (No module named"),
        ("reward=[correct,length] rollout/curation=[overlong]", "rollout.curation.overlong and the reward length "),
        ("reward=[correct,language] rollout/curation=[outcome]", "rollout.curation.outcome replaces every reward "),
        ("+reward.length.weight=1", "reward.length has settings ({'weight': 1}) but is not chosen; add length to "),
        ("+callbacks.mine.every=1", "callbacks.mine has settings ({'every': 1}) but is not chosen; add mine to "),
        ("reward.correct.weight=none", "reward.correct.weight=none is not a float"),
        ("rollout.system=Think", "rollout.system is for a chat, and rollout.chat=false is plain text; set chat=true"),
        ("rollout/sampling=pass_rate", "rollout/sampling=pass_rate looks at all problems, and this task makes "),
        ("rollout/sampling=weighted rollout.problems=64", "rollout.sampling.column=weight is None for the problem "),
        ("rollout/sampling=suffled", "rollout/sampling=suffled does not exist: rollout/sampling can be curriculum, "),
        ("logger=[csv,neptune]", "logger=neptune cannot be: Neptune is shut down, and Lightning's logger for "),
        ("task=data", "task.path has no value; set it with task.path=..."),
        ("task=data task.path=nowhere.jsonl", "task.path=nowhere.jsonl is not a file; give the path of one, or the "),
        ("ckpt_path=nowhere.ckpt", "ckpt_path=nowhere.ckpt does not exist; its folder has no checkpoint"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused(override: str, sentence: str):
    assert sentence in refusal(*override.split())


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_logger_that_is_not_installed_is_named():
    assert "wandb" in refusal("logger=wandb")


@pytest.mark.parametrize(
    "lines, sentence",
    [
        ([{"question": "1+1?"}], "line 1 of task.train={path} lacks answer; its columns are question"),
        ([{"question": "1+1?", "answer": "two"}], "an answer that ends in 'two', where #### and a number must stand"),
        ([], "task.train={path} is empty; it must hold at least one problem"),
    ],
)
def test_data_that_cannot_be_learnt_from_is_refused(tmp_path: Path, lines: list[dict[str, str]], sentence: str):
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert sentence.format(path=path) in refusal("task=gsm8k", f"task.train={path}", f"task.test={path}")


@pytest.fixture
def checkpoint(short: Path) -> Path:
    return short / "checkpoints" / "last.ckpt"


def test_a_checkpoint_that_is_cut_off_or_foreign_is_refused(checkpoint: Path, tmp_path: Path):
    path = tmp_path / "last.ckpt"
    path.write_bytes(checkpoint.read_bytes()[:-1000])
    assert refusal(f"ckpt_path={path}").startswith(f"ckpt_path={path} cannot be read and may be cut off: ")
    path.write_bytes(b"")
    assert refusal(f"ckpt_path={path}").startswith(f"ckpt_path={path} cannot be read and may be cut off: ")
    torch.save({"state_dict": {}}, path)
    assert refusal(f"ckpt_path={path}") == f"ckpt_path={path} was not written by isentropic.train"


def test_a_last_checkpoint_that_is_gone_is_no_start(tmp_path: Path):
    (folder := tmp_path / "checkpoints").mkdir()
    (folder / "last.ckpt").symlink_to("rollout_4.ckpt")
    (folder / "rollout_2.ckpt").touch()
    cfg = compose(LOADER, "train", [*QUICKSTART, "ckpt_path=last", f"paths.output={tmp_path}"])
    assert find_last(cfg)
    with pytest.raises(BadInput, match=r"last.ckpt does not exist; there are .*rollout_2.ckpt"), parts(cfg):
        pass


def test_a_checkpoint_of_another_model_controller_or_of_a_finished_run_is_refused(checkpoint: Path, tiny_model: str):
    given = f"ckpt_path={checkpoint}"
    assert refusal(given, f"policy.model.path={tiny_model}") == (
        f"{given} is of another model than policy.model.path={tiny_model}: hidden_size 128 instead of 64, "
        "intermediate_size 256 instead of 128, tie_word_embeddings False instead of True"
    )
    assert refusal(given, "algorithm=grpo").startswith(
        "ckpt_path: The checkpoint's controller remembers ['open', 'strength'] but Constant remembers []; resume with"
    )
    assert refusal(given, "rollout.steps=1").startswith(f"{given} has learnt from 1 rollouts, and rollout.steps=1 asks")


def test_a_full_disk_is_one_sentence(inside):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(
            BadInput, match=r"^the checkpoint of rollout 1 could not be written .* there is none yet; free"
        ):
            inside(train, "rollout.steps=1", "rollout.batch_size=16")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_all_that_differs_from_a_checkpoint_is_said(capsys):
    say_differences({"seed": 1, "reward.length.weight": 2.0}, {"seed": 0, "algorithm.credit.stare.boost": 1.1})
    assert capsys.readouterr().out.splitlines() == [
        "going on with other settings than the checkpoint's:",
        "  algorithm.credit.stare.boost is no more, was 1.1",
        "  reward.length.weight=2.0, was not there",
        "  seed=1, was 0",
    ]
    say_differences({"seed": 1}, {})
    assert capsys.readouterr().out == "", "an older checkpoint does not say"


def test_what_files_hold_that_settings_only_name_is_said_to_differ(tiny_model, tmp_path, capsys):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    cfg = OmegaConf.create({"policy": {"model": {"path": str(folder)}}, "rollout": {"steps": 3}})
    problems = [Problem(f"{i} + 1 =", str(i + 1)) for i in range(200)]

    def contents(problems, offset=0):
        encoder = SimpleNamespace(encode=lambda problem: [ord(symbol) + offset for symbol in problem.prompt])
        return contents_of(cfg, SimpleNamespace(problems_of=lambda split: problems, prompts=encoder))

    def said(now, before):
        say_differences(now, before)
        return [re.sub("=.*", "", line).strip() for line in capsys.readouterr().out.splitlines()[1:]]

    before = contents(problems)
    assert said(contents(problems), before) == said(before, {"seed": 0} | before | {"of: gone": 1})[1:] == []
    assert said(contents([*problems[:77], Problem("77 + 1 =", "79"), *problems[78:]]), before) == [
        "problems of the task"
    ]
    assert said(contents(problems, offset=1), before) == ["prompts as tokens"]
    assert "problems of the task" in said(contents(Endless(problems)), before)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.5}))
    cfg.rollout.steps += 1
    names = ["config.json of policy.model.path", "rollout.steps", "torch"]
    assert said(contents(problems), before | {"of: torch": "1.0"}) == names


class Endless(list):
    def __len__(self):
        return sys.maxsize


@pytest.mark.parametrize("arguments", [["task=nothing"], ["ckpt_path=nowhere.ckpt", "hydra.run.dir=run"]])
def test_the_command_says_so_and_leaves_nothing(ranked, tmp_path, arguments: list[str]):
    result = ranked("train", *arguments, f"paths.logs={tmp_path}/logs", ranks=1)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
