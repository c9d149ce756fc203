import json
from pathlib import Path

import pytest

from isentropic.config.build import BadInput
from isentropic.launching import Job
from isentropic.launching.slurm_queue import (
    State,
    Submission,
    Submissions,
    final_outcome,
    has_ended,
    queue_states,
    status_mtime,
    stuck_jobs,
    sweep_folder,
)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job("seed=0", tmp_path / "seed=0", ("seed=0",), ("true",), tmp_path / "seed=0" / "train.log")


def leave(job: Job, status: str, error: str | None = None) -> None:
    job.folder.mkdir(exist_ok=True)
    record = {"status": status, "error": error, "started": "", "seconds": 3.0, "host": "n9", "pid": 1, "overrides": []}
    (job.folder / "status.json").write_text(json.dumps(record | {"versions": {}, "result": 0.5}))


def test_a_later_call_finds_what_was_submitted_as_what(job, tmp_path):
    Submissions(tmp_path).add({job: "12_0"})
    nested = Job("a/b", tmp_path / "a/b", (), (), tmp_path / "a/b/train.log")
    Submissions(tmp_path).add({nested: "13"})
    assert Submissions(tmp_path).by_name == {"seed=0": Submission("12_0", 0), "a/b": Submission("13", 0)}
    assert sweep_folder([nested]) == sweep_folder([job]) == tmp_path
    assert [path.name for path in (tmp_path / ".slurm").iterdir()] == ["submitted.json"]


@pytest.mark.parametrize(
    "status, error, ending, reason",
    [
        ("done", None, "done", ""),
        ("failed", "no luck", "failed", "no luck"),
        ("stopped", "stopped by SIGUSR1", "unfinished", "stopped by SIGUSR1; the same command goes on with it"),
        ("running", None, "unfinished", "job 12_0 ended without a status; the same command goes on with it"),
    ],
)
def test_how_a_job_ended_is_what_it_said_itself(job, monkeypatch, status, error, ending, reason):
    monkeypatch.setenv("PATH", "")  # no scontrol, which forgets a job after minutes
    leave(job, status, error)
    outcome = final_outcome(job, Submission("12_0", 0))
    assert (outcome.ending, outcome.reason, outcome.seconds) == (ending, reason, 3.0)


def test_what_an_earlier_run_said_is_not_taken_for_this_ones(job, monkeypatch):
    monkeypatch.setenv("PATH", "")
    leave(job, "failed", "of yesterday")
    job.log.write_text("Traceback\nerror: no such module\n")
    submission = Submission("12_0", status_mtime(job))
    assert not has_ended(job, submission)
    outcome = final_outcome(job, submission)
    assert (outcome.ending, outcome.reason) == ("failed", "job 12_0 ended before it began: no such module")
    leave(job, "done")
    assert has_ended(job, submission) and final_outcome(job, submission).ending == "done"


def test_a_job_that_may_wait_for_ever_is_told_and_one_that_waits_its_turn_is_not(job):
    waiting = {job: Submission("12_0", 0)}
    assert [*stuck_jobs({"12_0": State("PENDING", "Priority")}, waiting)] == []
    assert [*stuck_jobs({"12_0": State("RUNNING", "None")}, waiting)] == []
    assert [*stuck_jobs({"12_0": State("PENDING", "PartitionTimeLimit")}, waiting)] == [
        "SLURM does not start seed=0 (12_0), because of PartitionTimeLimit"
    ]
    assert [*stuck_jobs(None, waiting)] == ["SLURM's controller does not answer; asking again until it does"]


def test_a_machine_without_slurm_is_told_of_another_launcher(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BadInput, match="hydra/launcher=local on any machine"):
        queue_states()
