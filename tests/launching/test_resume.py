import os
import socket
import subprocess
import sys
from pathlib import Path

from omegaconf import OmegaConf

from isentropic.launching.resume import SAMPLE, describe_change, move_aside, pending_jobs, representative_jobs, resolved
from isentropic.runs.status import Status, read_status, write_status


def left(job, compose, status: str = "done", result: float | None = 0.5, pid: int = 0, host: str = "", **changed):
    """As a run leaves its folder."""
    job.folder.mkdir(parents=True)
    config = compose(job.overrides)
    config.hydra.runtime.output_dir = str(job.folder)
    (job.folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(resolved(config) | changed)))
    write_status(job.folder, Status(status, None, "", 60.0, host or socket.gethostname(), pid, [], {}, result))  # pyright: ignore
    return job


def endings(jobs, compose):
    todo, others = pending_jobs(jobs, compose)
    return [job.name for job in todo], {outcome.job.name: outcome for outcome in others}


def test_what_is_done_is_left_and_what_is_missing_stopped_failed_or_killed_is_to_do(job, compose):
    done = left(job("seed=1"), compose)
    gone = os.fork()
    if not gone:
        os._exit(0)
    os.waitpid(gone, 0)
    others = [
        left(job("seed=2"), compose, "failed"),
        left(job("seed=3"), compose, "stopped"),
        left(job("seed=4"), compose, "running", pid=gone),
    ]
    todo, rest = endings([done, *others, job("seed=5")], compose)
    assert todo == ["seed=2", "seed=3", "seed=4", "seed=5"]
    assert (rest["seed=1"].ending, rest["seed=1"].result) == ("skipped", 0.5)


def test_what_still_runs_is_left_alone_here_and_elsewhere(job, compose):
    waits = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    here = left(job("seed=1"), compose, "running", pid=waits.pid)
    there = left(job("seed=2"), compose, "running", host="elsewhere", pid=1)
    lost = left(job("seed=3"), compose, "running", host="elsewhere", pid=1)
    for path in lost.folder.iterdir():
        os.utime(path, (0, 0))
    todo, rest = endings([here, there, lost], compose)
    assert todo == ["seed=3"]
    assert rest["seed=1"].reason == f"it runs already, as process {waits.pid} on {socket.gethostname()}"
    assert rest["seed=2"].ending == "unfinished"
    assert move_aside([here], here.folder.parent) == []
    waits.communicate(b"\n")


def test_a_run_of_other_settings_is_neither_skipped_nor_gone_on_with(job, compose):
    for status in ("done", "stopped"):
        one = left(job("seed=1", f"lr={len(status)}"), compose, status, lr=0.3, tags=["other"])
        todo, rest = endings([one], compose)
        assert todo == [] and rest[one.name].ending == "failed"
        assert rest[one.name].reason.startswith(f"lr was 0.3 and is now {len(status)}; move {one.folder} away")


def test_a_folder_that_was_moved_holds_the_same_settings(job, compose, tmp_path: Path):
    one = left(job("seed=1"), compose)
    one.folder.rename(tmp_path / "elsewhere")
    config = (tmp_path / "elsewhere" / "config.yaml").read_text()
    assert str(one.folder) in config
    places = f"paths: {{output: {one.folder}}}\n"
    (tmp_path / "elsewhere" / "config.yaml").write_text(config + places)
    now = compose(["seed=1"])
    now.paths = {"output": "${hydra:runtime.output_dir}"}
    assert describe_change(tmp_path / "elsewhere", now) == ""


def test_of_many_jobs_some_are_compared_for_all_until_one_differs(job, compose):
    composed = []

    def counted(overrides):
        composed.append(overrides)
        return compose(overrides)

    jobs = [left(job(f"seed={i}"), compose) for i in range(SAMPLE + 5)]
    assert len(list(representative_jobs([*jobs, job("seed=1", "seed=2")]))) == SAMPLE + 5
    assert endings(jobs, counted)[0] == [] and len(composed) == SAMPLE
    (jobs[0].folder / "config.yaml").write_text("seed: 9")
    _, rest = endings(jobs, counted)
    assert [name for name, outcome in rest.items() if outcome.ending == "failed"] == [jobs[0].name]
    assert len(composed) == SAMPLE + SAMPLE + SAMPLE + 5


def test_what_is_moved_aside_is_all_there(job, compose):
    one, two = left(job("seed=1"), compose), job("seed=2")
    for i in (1, 2):
        assert move_aside([one, two], one.folder.parent) == [one]
        kept = one.folder.parent.with_name(f"sweep.{i}") / "seed=1"
        status = read_status(kept)
        assert status and status.status == "done" and not one.folder.exists()
        left(one, compose)


def test_a_run_that_was_killed_while_it_wrote_its_config_runs_anew(job, compose):
    one = left(job("seed=1"), compose, "failed")
    for text in ("seed: [", ""):
        (one.folder / "config.yaml").write_text(text)
        assert endings([one], compose)[0] == ["seed=1"]
