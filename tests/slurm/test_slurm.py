"""Sweeps, requeues and the preflight on a real SLURM of two nodes, which this machine plays: `make test-slurm`."""

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slurm
ROOT = Path(__file__).parents[2]
COUNTDOWN = ROOT / "src/isentropic/assets/countdown"
TWO = ["trainer=ddp_cpu", "trainer.devices=1", "trainer.num_nodes=2"]
SHORT = ["sampler=transformers", "rollout.batch_size=16", "rollout.steps=10", "rollout.evaluation.problems=2"]
# Nodes that are one machine have no names of their own.
HERE = ["hydra.launcher.setup=['export MASTER_ADDR=127.0.0.1']", "hydra.launcher.poll=0.5", "hydra.launcher.time=30"]


def until(holds: Callable[[], bool], what: str, seconds: float = 150.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"after {seconds} s it is not the case that {what}"
        time.sleep(0.1)


def learnt(folder: Path) -> dict[int, dict[str, str]]:
    """By rollout, what does not depend on the clock, over all parts of a run; the newest part has the last word."""
    rows: dict[int, dict[str, str]] = {}
    for file in [*sorted(folder.glob("metrics.*.csv")), folder / "metrics.csv"]:
        if file.exists():
            for row in csv.DictReader(file.read_text().splitlines()):
                known = {k: v for k, v in row.items() if v and not k.startswith(("throughput/", "time/"))}
                rows[int(row["step"])] = rows.get(int(row["step"]), {}) | known
    return rows


def status(folder: Path) -> str | None:
    file = folder / "status.json"
    return json.loads(file.read_text())["status"] if file.exists() else None


def shown(number: str) -> str:
    return subprocess.run(["scontrol", "show", "job", number], capture_output=True, text=True, check=True).stdout


def warn(sweep: Path, job: str, number: signal.Signals, process: subprocess.Popen[str] | None = None) -> str:
    """What SLURM does before the time limit, once the job has learnt from two rollouts; its number."""
    ended = lambda: process is not None and process.poll() is not None  # noqa: E731
    until(lambda: ended() or len(learnt(sweep / job)) > 2, "two rollouts are learnt from")
    assert status(sweep / job) == "running", process and process.communicate()
    name = json.loads((sweep / ".slurm/submitted.json").read_text())[job]["id"]
    subprocess.run(["scancel", f"--signal={number.name.removeprefix('SIG')}", name], check=True)
    return name


@pytest.fixture(scope="session")
def uninterrupted(cluster, command, warm, tmp_path_factory) -> Path:
    """Folder of the same two ranks, started by hand, in forks."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    ranks = "trainer=ddp_cpu", f"hydra.run.dir={folder}"
    result = command("train", *SHORT, *ranks, interpreter=warm.interpreter)
    assert result.returncode == 0, result.stderr
    return folder


def check_resumed(folder: Path, number: str, whole: Path) -> None:
    assert "Restarts=1" in shown(number)
    assert status(folder) == "done"
    assert (folder / "metrics.1.csv").exists()
    assert learnt(folder) == learnt(whole) and len(learnt(whole)) == 11
    assert (folder / "samples.jsonl").read_text() == (whole / "samples.jsonl").read_text()


def test_a_job_whose_time_is_up_is_requeued_and_no_failed_job_hides(cluster, start, command, uninterrupted, tmp_path):
    sweep = tmp_path / "sweep"
    line = [*SHORT, *TWO, f"policy.model.path={COUNTDOWN},nowhere", "hydra/launcher=slurm", *HERE]
    line += [f"hydra.sweep.dir={sweep}", "hydra.sweep.subdir=${hydra.job.num}"]
    process = start("train", *line, "-m")
    try:
        number = warn(sweep, "0", signal.SIGUSR2, process)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 1 and "Traceback" not in err
    assert "1 done, 1 failed" in out and "nowhere" in out and f"log: {sweep / '1' / 'train.log'}" in out
    check_resumed(sweep / "0", number, uninterrupted)
    again = command("train", *line, "hydra.launcher.dry=true", "-m")
    assert again.returncode == 0 and "1 skipped, 1 unfinished" in again.stdout
    assert "#SBATCH --array=0-0\n" in again.stdout and "#SBATCH --nodes=2" in again.stdout


def test_a_batch_script_requeues_itself_and_the_same_command_finds_its_jobs_in_the_queue(
    cluster, command, warm, uninterrupted, tmp_path
):
    """Its jobs are forks, without imports; those of the test above are processes as they are."""
    sweep = tmp_path / "sweep"
    line = [*SHORT, *TWO, "seed=0,1", "hydra/launcher=slurm", *HERE, f"hydra.sweep.dir={sweep}"]
    first = command("train", *line, "hydra.launcher.wait=false", "-m", interpreter=warm.interpreter)
    assert first.returncode == 0 and "2 unfinished" in first.stdout and "in the queue as" in first.stdout
    number = warn(sweep, "seed=0", signal.SIGUSR1)
    later = command("train", *line, "-m", interpreter=warm.interpreter)
    assert later.returncode == 0, later.stdout + later.stderr
    assert "are in the queue from an earlier call" in later.stdout and "submitted" not in later.stdout
    check_resumed(sweep / "seed=0", number, uninterrupted)
    assert status(sweep / "seed=1") == "done" and not (sweep / "seed=1" / "metrics.1.csv").exists()
    assert len([*(sweep / ".slurm").glob("*.sh")]) == 1


def test_what_slurm_refuses_is_one_sentence(cluster, command, tmp_path):
    line = [*SHORT, "seed=0,1", "hydra/launcher=slurm", "hydra.launcher.partition=nosuch"]
    result = command("train", *line, f"hydra.sweep.dir={tmp_path}", "-m")
    assert result.returncode == 2
    assert "error: sbatch refused" in result.stderr and "invalid partition" in result.stderr.lower()


def test_a_job_that_slurm_will_not_start_is_told_with_the_reason_and_ctrl_c_leaves_it_there(cluster, start, tmp_path):
    line = [
        *SHORT,
        "seed=0,1",
        "hydra/launcher=slurm",
        "hydra.launcher.time=100000",
        f"hydra.sweep.dir={tmp_path}",
    ]
    process = start("train", *line, "-m")
    said = next((one for one in process.stdout if "SLURM does not start seed=0" in one), "")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    queue = subprocess.run(["squeue", "--noheader", "--array"], capture_output=True, text=True, check=True).stdout
    subprocess.run(["scancel", "--state=PENDING", "--user=root"], check=True)
    assert process.returncode == 130 and "because of Partition" in said and "Traceback" not in err
    assert "The jobs stay in the queue" in out and "2 unfinished" in out and "(PENDING, Partition" in out
    assert len(queue.splitlines()) == 2


def preflight(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    line = [
        "srun",
        "--nodes=2",
        "--ntasks-per-node=1",
        sys.executable,
        "-m",
        "isentropic.commands.preflight",
        *arguments,
    ]
    return subprocess.run(line, env=os.environ | path | variables, capture_output=True, text=True, timeout=300)


def test_the_preflight_over_two_nodes_says_that_all_is_well(cluster, tmp_path):
    result = preflight("sampler=transformers", *TWO, f"paths.logs={tmp_path}", MASTER_ADDR="127.0.0.1")
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["rank", "host"], ["0", "n1"], ["1", "n2"]]
    assert "all-reduce: works on 2 ranks" in result.stdout and lines[-1] == "nothing is wrong"


def test_the_preflight_names_an_address_that_nobody_knows_and_tasks_that_are_too_few(cluster, tmp_path):
    lost = preflight("sampler=transformers", *TWO)
    assert lost.returncode != 0 and "rank 1 on n2 cannot resolve MASTER_ADDR=n1" in lost.stderr
    few = preflight("trainer=ddp_cpu", "trainer.num_nodes=2", "sampler=transformers", MASTER_ADDR="127.0.0.1")
    assert few.returncode != 0
    assert "srun started 2 processes, and trainer.num_nodes=2 times trainer.devices=2 asks for 4" in few.stdout


def test_what_is_set_up_is_torn_down(slurm):
    folder = Path(tempfile.mkdtemp(prefix="slurm")) / "cluster"
    environment = os.environ | slurm.up(folder)
    subprocess.run(["sbatch", "--wrap", "sleep 60", "--output=/dev/null"], env=environment, check=True)
    names = "munged", "slurmctld", "slurmd.n1", "slurmd.n2"
    assert all(slurm.daemon_pids(folder, name) for name in names)
    slurm.down(folder)
    assert not any(slurm.daemon_pids(folder, name) for name in names) and not slurm.job_pids(folder)
