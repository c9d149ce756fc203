"""On the real configs, composed as Hydra does for a sweep."""

from pathlib import Path

import pytest
from hydra.types import RunMode

from isentropic.config.build import BadInput
from isentropic.config.compose import loader_of
from isentropic.config.entry import CONFIGS
from isentropic.config.names import name_sweep
from isentropic.launching.jobs import plan

ALGORITHMS = [["algorithm=grpo", "seed=0"], ["algorithm=dapo", "seed=0"]]


def jobs(tmp_path: Path, *overrides: str, own=ALGORITHMS, name: str = "train"):
    line = ["algorithm=grpo,dapo", "seed=0", f"hydra.sweep.dir={tmp_path}/grid", *overrides]
    name_sweep(line)
    loader = loader_of(CONFIGS)
    return plan(loader.load_configuration(name, line, RunMode.MULTIRUN), loader, own, 0)


def test_a_job_is_a_run_in_a_folder_of_its_own(tmp_path: Path):
    first, second = jobs(tmp_path, "hydra.launcher.jobs=2", "hydra.verbose=true")
    assert (first.name, second.name) == ("algorithm=grpo", "algorithm=dapo")
    assert first.folder == tmp_path / "grid" / "algorithm=grpo" and first.log.parent == first.folder
    line = list(first.command)
    assert line[line.index("-cn") + 1] == "train"
    assert {"algorithm=grpo", "seed=0", "ckpt_path=last", "hydra.verbose=true", "hydra.mode=RUN"} < set(line)
    assert f"hydra.run.dir='{first.folder}'" in line
    assert not any(one.startswith(("hydra.launcher", "hydra/launcher")) for one in line)


@pytest.mark.parametrize(
    "subdir, names",
    [
        ("${hydra.job.num}", ["0", "1"]),
        ("${algorithm._target_}_${hydra.job.num}", ["isentropic.algorithm.algorithm.Algorithm_0"]),
        ("${hydra.job.override_dirname}", ["algorithm=grpo,seed=0"]),
    ],
)
def test_a_users_own_names_are_used(tmp_path: Path, subdir: str, names: list[str]):
    assert [job.name for job in jobs(tmp_path, f"hydra.sweep.subdir='{subdir}'")][: len(names)] == names


def test_jobs_that_would_share_a_folder_are_refused(tmp_path: Path):
    with pytest.raises(BadInput, match="two jobs of this sweep have the folder same: algorithm=dapo seed=0 and"):
        jobs(tmp_path, "hydra.sweep.subdir=same")


def test_a_job_begins_where_it_is_told_and_goes_on_from_its_own_checkpoint(tmp_path: Path):
    checkpoint = tmp_path / "grid" / "ckpt_path=a.ckpt,seed=1" / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    first, second = jobs(tmp_path, own=[["seed=0", "ckpt_path=a.ckpt"], ["seed=1", "ckpt_path=a.ckpt"]])
    assert "ckpt_path=a.ckpt" in first.command and "ckpt_path=last" not in first.command
    assert second.folder == checkpoint.parents[1]
    assert "ckpt_path=last" in second.command and "ckpt_path=a.ckpt" not in second.command


def test_an_evaluation_reads_the_checkpoint_that_it_is_given(tmp_path: Path):
    (job,) = jobs(tmp_path, own=[["ckpt_path=a.ckpt"]], name="eval")
    assert "ckpt_path=a.ckpt" in job.command and "ckpt_path=last" not in job.command
