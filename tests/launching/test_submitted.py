"""A rank as submitit runs it, and the signals that it gets; the requeue alone is left out."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("submitit")

# A run that saves and leaves when it is warned, as callbacks.checkpoint does.
RUN = """
import signal, sys, time
said = []
def leave(number, frame):
    print("saved", flush=True)
    sys.exit(128 + number)
signal.signal(signal.SIGUSR1, leave)
print("training", flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(int(sys.argv[2]))
"""
RANK = """
import signal, sys
from pathlib import Path
from isentropic.launching import Job
from isentropic.launching.submitted import Rank

folder = Path(sys.argv[1])
rank = Rank(Job("seed=0", folder, (), (sys.executable, *sys.argv[2:]), folder / "train.log"))

def requeue(number, frame):  # as submitit's handler on rank 0
    again = rank.checkpoint()
    print("requeued", type(again.function).__name__, again.function.child, flush=True)
    sys.exit(0)

if "asks" in sys.argv:
    signal.signal(signal.SIGUSR2, requeue)
else:
    signal.signal(signal.SIGUSR2, lambda number, frame: None)
print("ended with", rank(), flush=True)
"""


@pytest.fixture
def rank(tmp_path: Path):
    (tmp_path / "run.py").write_text(RUN)

    def start(seconds: float, code: int, number: int = 0) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", RANK, str(tmp_path / "job"), str(tmp_path / "run.py"), str(seconds), str(code)]
        return subprocess.Popen(
            [*words, *(["asks"] if number == 0 else [])], env=os.environ | {"SLURM_PROCID": str(number)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


def until_it_trains(folder: Path) -> None:
    log, end = folder / "job" / "train.log", time.monotonic() + 60
    while not (log.exists() and "training" in log.read_text()):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_code_of_a_run_is_that_of_its_rank(rank, tmp_path):
    good, bad = rank(0, 0), rank(0, 3)
    assert good.communicate()[0] == "ended with 0\n"
    assert (bad.communicate()[0], bad.returncode) == ("", 3)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_warned_rank_0_waits_for_its_checkpoint_and_is_requeued_as_it_was(rank, tmp_path, number):
    process = rank(60, 0)
    until_it_trains(tmp_path)
    process.send_signal(number)
    assert process.communicate() == ("requeued Rank None\n", "")
    assert (tmp_path / "job" / "train.log").read_text() == "training\nsaved\n"


def test_a_cancelled_job_saves_and_is_not_requeued(rank, tmp_path):
    process = rank(60, 0)
    until_it_trains(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.communicate() == ("", "") and process.returncode == 138
    assert (tmp_path / "job" / "train.log").read_text() == "training\nsaved\n"


def test_other_ranks_write_elsewhere_and_leave_the_requeue_to_rank_0(rank, tmp_path):
    process = rank(60, 0, number=1)
    assert process.stdout.readline() == "training\n"
    process.send_signal(signal.SIGUSR1)
    assert process.communicate()[0] == "saved\nended with 138\n"
    assert not (tmp_path / "job").exists()
