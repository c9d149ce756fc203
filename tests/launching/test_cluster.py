import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from isentropic.config.build import BadInput
from isentropic.launching import Job
from isentropic.launching.cluster import WARNED, outside, resumed, wants
from isentropic.launching.devices import Needs
from isentropic.launching.slurm_array import SlurmArray

SETTINGS = yaml.safe_load((Path(__file__).parents[2] / "configs/hydra/launcher/slurm.yaml").read_text())
ARRAY = SlurmArray(**{key: value for key, value in SETTINGS.items() if key != "_target_"})
FOUR = Needs(processes=4, nodes=2, gpu=True)


def job(folder: Path, *overrides: str, command: tuple[str, ...] = ("true",)) -> Job:
    name = ",".join(overrides) or "job"
    return Job(name, folder / name, overrides, command, folder / name / "train.log")


def test_nodes_tasks_and_gpus_are_the_trainers():
    options = replace(ARRAY, partition="gpu", cpus_per_task=8, mem_gb=64).options(FOUR, "mine")
    assert options == {
        "job_name": "mine", "partition": "gpu", "time": 240, "nodes": 2, "ntasks_per_node": 4, "gpus_per_node": 4,
        "cpus_per_task": 8, "mem": "64G",
    }  # fmt: skip
    assert "gpus_per_node" not in ARRAY.options(replace(FOUR, gpu=False), "mine")


def test_gpus_may_be_asked_for_in_the_clusters_own_words():
    options = replace(ARRAY, gpus_per_node=0, extra=["--gres=gpu:a100:4", "--exclusive"]).options(FOUR, "mine")
    assert options["gres"] == "gpu:a100:4" and options["exclusive"] is True and "gpus_per_node" not in options


def test_a_trainer_that_takes_what_there_is_must_be_told_how_much():
    whole = Needs(processes=None, nodes=1, gpu=True)
    with pytest.raises(BadInput, match=r"trainer.devices .* give its number"):
        ARRAY.options(whole, "mine")
    assert replace(ARRAY, gpus_per_node=8).options(whole, "mine")["ntasks_per_node"] == 8


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"time": 0}, "time=0 must be above 0"),
        ({"cpus_per_task": -1}, "cpus_per_task=-1 must be above 0"),
        ({"requeues": -1}, "requeues=-1 must be at least 0"),
        ({"time": 5, "warning": 300}, "warning=300 seconds before the limit leave nothing of time=5 minutes"),
        ({"extra": ["exclusive"]}, "extra=exclusive is no option of sbatch"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        replace(ARRAY, **settings)


def test_one_job_is_composed_of_those_that_cannot_differ_in_what_they_ask_for(tmp_path):
    composed = []

    def compose(overrides):
        composed.append(tuple(overrides))
        return OmegaConf.create({"trainer": {"devices": 2 if "trainer=fsdp" in overrides else 1, "accelerator": "gpu"}})

    jobs = [job(tmp_path, f"seed={i}", f"trainer={t}") for t in ("gpu", "fsdp") for i in range(50)]
    found = dict(wants(jobs, compose))
    assert len(composed) == 2
    assert [found[one].processes for one in (jobs[0], jobs[-1])] == [1, 2]


def test_a_job_that_began_with_another_checkpoint_goes_on_from_its_own(tmp_path):
    elsewhere = job(tmp_path, command=("train", "ckpt_path=base.ckpt"))
    assert resumed(elsewhere) == ["train", "ckpt_path=base.ckpt"]
    (elsewhere.folder / "checkpoints").mkdir(parents=True)
    (elsewhere.folder / "checkpoints/last.ckpt").touch()
    assert resumed(elsewhere) == ["train", "ckpt_path=base.ckpt", "ckpt_path=last"]
    for command in (("train", "ckpt_path=last"), ("eval",)):
        assert resumed(replace(elsewhere, command=command)) == list(command)


def test_an_allocation_around_the_launcher_is_not_the_jobs(monkeypatch):
    for name, value in {"SLURM_CONF": "here", "SLURM_NTASKS": "8", "SBATCH_ACCOUNT": "mine"}.items():
        monkeypatch.setenv(name, value)
    with outside():
        assert "SLURM_NTASKS" not in os.environ
        assert (os.environ["SLURM_CONF"], os.environ["SBATCH_ACCOUNT"]) == ("here", "mine")
    assert os.environ["SLURM_NTASKS"] == "8"


def test_the_codes_of_a_warned_run_are_those_of_the_two_signals():
    assert WARNED == (138, 140)
