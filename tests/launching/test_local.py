"""Sweeps of a project that is nothing but its jobs: from the command line, each in a process of its own."""

import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hydra.utils import get_class

from isentropic.config.build import BadInput
from isentropic.config.compose import compose, loader_of
from isentropic.config.entry import CONFIGS
from isentropic.launching.devices import Resources
from isentropic.launching.local import Local, check_fits
from isentropic.runs.status import read_status

ALONE = Resources(processes=1, nodes=1, gpu=True)


@pytest.mark.slow
def test_one_failed_job_stops_no_other_and_the_same_command_runs_what_is_missing(project: Path, sweep):
    code, out = sweep("does=fails,nothing", "seed=1", "size=1,2", "hydra.launcher.jobs=4")
    assert code == 1
    (folder,) = (project / "sweeps").iterdir()
    assert (
        f"sweep folder: {folder}\n" in out
        and "2 done, 2 failed" in out
        and "RuntimeError: no luck with 1" in out
        and "second line" not in out
    )
    assert f"log: {folder}/does=fails,size=2/train.log" in out
    names = {f"does={does},size={size}" for does in ("fails", "nothing") for size in (1, 2)}
    assert {path.name for path in folder.iterdir()} == {"multirun.yaml", *names}
    status = read_status(folder / "does=fails,size=1")
    assert status and (status.status, status.error) == ("failed", "RuntimeError: no luck with 1")
    assert "second line" in (folder / "does=fails,size=1" / "train.log").read_text()

    (project / "mended").touch()
    code, out = sweep("seed=1", "size=3,1", "does=nothing,fails")
    assert code == 0 and "3 done, 1 skipped" in out, "the same sweep with one more size does not find what is there"
    assert len(list((project / "sweeps").iterdir())) == 1


@pytest.mark.slow
def test_what_a_job_was_run_with_is_compared_and_nothing_is_deleted(project: Path, sweep):
    where = "hydra.sweep.dir=grid"
    assert sweep("seed=1,2", where)[0] == 0
    code, out = sweep("seed=1,2,3", "size=2", where)
    assert code == 1 and "1 done, 2 failed" in out
    assert f"size was 1 and is now 2; move {project}/grid/seed=1 away, or choose another hydra.sweep.dir" in out
    code, out = sweep("seed=1,2", "size=2", where, "hydra.launcher.again=true")
    assert code == 0 and "2 done" in out
    assert {path.name for path in (project / "grid.1").iterdir()} == {"seed=1", "seed=2"}


def test_a_job_that_was_killed_is_said_to_be(sweep):
    code, out = sweep("does=dies,nothing")
    assert code == 1 and "killed by SIGKILL" in out and "1 done, 1 failed" in out


@pytest.mark.slow
def test_stopping_a_sweep_stops_its_jobs_first_and_the_same_command_goes_on(project: Path, shell, sweep):
    process = shell("-m", "does=waits", "seed=1,2", "hydra.sweep.dir=grid")
    folder = project / "grid" / "seed=1"
    assert next(line for line in process.stdout if line.startswith("start 1/2"))
    with subprocess.Popen(
        ["timeout", "300", "tail", "-n+1", "-F", folder / "train.log"], stdout=-1, stderr=-3, text=True
    ) as tail:
        assert next(line for line in tail.stdout if line == "waiting\n")
        tail.kill()
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 143
    assert "2 unfinished" in out and "stopped by SIGINT" in out and "not started" in out
    status = read_status(folder)
    assert status and status.status == "stopped"
    (project / "mended").touch()
    code, out = sweep("does=waits", "seed=1,2", "hydra.sweep.dir=grid")
    assert code == 0 and "2 done" in out


def test_jobs_share_the_cores_and_are_given_a_gpu_each(project: Path, sweep):
    (project / "configs" / "train.yaml").write_text(
        "{defaults: [_self_, hydra: default], seed: 0, does: nothing, ckpt_path: null, trainer: {accelerator: gpu}}"
    )
    code, _ = sweep("seed=1,2", "hydra.sweep.dir=grid", "hydra.launcher.threads=3", CUDA_VISIBLE_DEVICES="GPU-a,MIG-b")
    assert code == 0
    logs = [(project / "grid" / f"seed={seed}" / "train.log").read_text() for seed in (1, 2)]
    assert "threads 3 devices GPU-a\n" in logs[0] and "threads 3 devices MIG-b\n" in logs[1]


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONFIGS / "hydra" / "launcher").glob("*.yaml")))
def test_the_keys_of_a_launchers_config_are_its_fields(name: str):
    node = dict(compose(loader_of(CONFIGS), "train", [f"hydra/launcher={name}"]).hydra.launcher)
    plugin = get_class(node.pop("_target_"))()
    assert set(node) == {field.name for field in fields(plugin.launcher)}


def test_other_programs_of_hydra_import_nothing_of_isentropic():
    code = "import hydra_plugins.isentropic, sys; print([m for m in sys.modules if m.startswith('isentropic')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_settings_that_cannot_be_are_one_sentence(project: Path, sweep):
    code, out = sweep("seed=1,2", "hydra.launcher.jobs=0")
    assert code == 2 and "error: hydra.launcher: jobs=0 must be at least 1, or null\n" in out
    assert "hydra.launcher.jobs=many is not an int or null" in sweep("seed=1,2", "hydra.launcher.jobs=many")[1]
    assert not (project / "sweeps").exists()


@pytest.mark.parametrize(
    "jobs, processes, busy, expected",
    [
        (None, 1, "", ["0"]),
        (None, 1, "0", ["1"]),
        (None, 1, "012", ["3"]),
        (None, 1, "0123", None),
        (None, 2, "", ["0", "1"]),
        (None, 2, "0", ["1", "2"]),
        (None, None, "", ["0", "1", "2", "3"]),
        (None, None, "0", None),
        (2, 1, "01", None),
        (8, 1, "0123", ["0"]),
        (8, 1, "01230", ["1"]),
    ],
)
def test_a_job_takes_the_gpus_that_are_free_and_shares_them_only_when_asked_to(jobs, processes, busy, expected):
    launcher, wanted = Local(jobs, None, False), Resources(processes, 1, True)
    assert launcher.choose_gpus(wanted, ["0", "1", "2", "3"], [[gpu] for gpu in busy]) == expected


def test_without_gpus_one_job_runs_at_a_time():
    launcher = Local(None, None, False)
    for wanted in (ALONE, Resources(2, 1, False)):
        assert launcher.choose_gpus(wanted, [], []) == [] and launcher.choose_gpus(wanted, [], [[]]) is None


def test_a_job_that_cannot_fit_is_refused():
    with pytest.raises(BadInput, match="num_nodes=2 is more than this machine"):
        check_fits(Resources(1, 2, True), ["0"])
    with pytest.raises(BadInput, match="devices=4 is more than the 2 GPUs"):
        check_fits(Resources(4, 1, True), ["0", "1"])
