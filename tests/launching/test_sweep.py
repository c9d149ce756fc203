"""A real sweep: each job two ranks, one of them killed in its midst, against its twin that was left alone."""

import csv
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from isentropic.runs.files import LAST_CHECKPOINT
from isentropic.runs.status import read_status

TWINS = [
    "tags=[killed],[whole]",  # changes nothing of what is learnt
    "algorithm=stare_adaptive",
    "sampler=transformers",
    "trainer=ddp_cpu",
    "trainer.val_check_interval=2",
    "rollout.steps=3",
    "callbacks.checkpoint.every=1",
]
CLOCKS = ("throughput/",)


def metrics(folder: Path) -> dict[tuple[int, bool], dict[str, str]]:
    """By step, and whether it is an evaluation; the newest file wins."""
    found: dict[tuple[int, bool], dict[str, str]] = {}
    for file in (*sorted(folder.glob("metrics.*.csv")), folder / "metrics.csv"):
        for row in csv.DictReader(file.open()):
            kept = {name: value for name, value in row.items() if value and not name.startswith(CLOCKS)}
            found[int(float(row["step"])), "eval/avg@8" in kept] = kept
    return found


def last_of(folder: Path, line: str) -> None:
    """Returns when a job has said this."""
    with subprocess.Popen(
        ["timeout", "300", "tail", "-n+1", "-F", folder / "train.log"], stdout=-1, stderr=-3, text=True
    ) as tail:
        assert tail.stdout and any(said.startswith(line) for said in tail.stdout)
        tail.kill()


def saved(folder: Path, job: subprocess.Popen[str]) -> None:
    """Returns when a job has saved what it goes on from: it may have said that it learnt a moment before."""
    while not (folder / LAST_CHECKPOINT).exists():
        assert job.poll() is None
        time.sleep(0.01)


def is_second(process: Path) -> bool:
    with suppress(OSError):
        return b"LOCAL_RANK=1" in (process / "environ").read_bytes().split(b"\0")  # which one that has ended lacks
    return False


def seconds_of(first: int) -> list[Path]:
    """The processes that the first rank of a job has started as its second."""
    found: list[Path] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"PPid:\t{first}\n" in (process / "status").read_text() and is_second(process):
                found.append(process)
    return found


@pytest.mark.slow
def test_a_killed_job_goes_on_with_the_same_command_and_ends_like_its_twin(start, ranked, tmp_path):
    grid = [*TWINS, f"hydra.sweep.dir={tmp_path}/grid", f"paths.logs={tmp_path}/logs", "-m"]
    killed, whole = tmp_path / "grid" / "tags=killed", tmp_path / "grid" / "tags=whole"
    process = start("train", *grid)
    last_of(killed, "step 1/3")
    saved(killed, process)
    status = read_status(killed)
    assert status and status.status == "running"
    (second,) = seconds_of(status.pid)
    os.kill(status.pid, signal.SIGKILL)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 1, out + err
    assert "1 done, 1 failed" in out and "killed by SIGKILL" in out
    assert (killed / "metrics.csv").exists() and read_status(whole).status == "done"

    assert not is_second(second), "it has outlived the first rank of its job"
    assert {path.name for path in killed.parent.iterdir()} == {"tags=killed", "tags=whole", "multirun.yaml"}
    assert all((folder / "config.yaml").exists() for folder in (killed, whole))
    assert not (tmp_path / "logs").exists(), "a rank has a folder of its own"

    result = ranked("train", *grid, ranks=1)
    assert result.returncode == 0, result.stdout + (killed / "train.log").read_text()
    assert "1 done, 1 skipped" in result.stdout
    assert set(metrics(whole)) == {(0, True), (1, False), (2, False), (2, True), (3, False), (3, True)}
    assert (killed / "metrics.1.csv").exists() and metrics(killed) == metrics(whole)
    assert (killed / "samples.jsonl").read_text() == (whole / "samples.jsonl").read_text()
    ended, twin = read_status(killed), read_status(whole)
    assert ended.status == "done" and ended.result == twin.result and ended.seconds > 0
