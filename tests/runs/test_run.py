import os
import socket

import pytest

from isentropic.runs.run import find
from isentropic.runs.status import boot_id, process_start

STARTED = {"boot": boot_id(), "process_start": process_start(os.getpid())}


def test_runs_are_found_at_any_depth_and_each_once(a_run, tmp_path):
    a_run(tmp_path / "b" / "1")
    a_run(tmp_path / "a")
    (tmp_path / "a" / "checkpoints").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "data.csv").write_text("x\n1\n")
    assert [run.folder.name for run in find([tmp_path, tmp_path / "a"])] == ["a", "1"]


def test_a_run_is_its_settings_and_what_it_logged(a_run, tmp_path):
    (run,) = find([a_run(tmp_path / "run", seed=3, overrides=["algorithm=stare"])], "mine")
    assert run.config["rollout.steps"] == 40 and run.seed == 3 and run.overrides == ("algorithm=stare", "seed=3")
    assert run.scores == ["eval/avg@8"] and run.metrics["eval/avg@8"].last == pytest.approx(0.43)
    assert (run.rollouts, run.planned, run.status, run.label, run.remarks) == (40, 40, "done", "mine", [])


def test_a_folder_without_runs_is_a_sentence(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(ValueError, match=r"no run in .*; a run's folder holds metrics\.csv \(logger=csv\)"):
        find([tmp_path])
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere; give that of a run or of a sweep"):
        find([tmp_path / "nowhere"])


def test_a_run_that_never_logged_is_a_run(a_run, tmp_path):
    folder = a_run(tmp_path / "run", status={"status": "failed", "error": "no memory"})
    (folder / "metrics.csv").unlink()
    (run,) = find([tmp_path])
    assert (run.status, run.error, run.metrics) == ("failed", "no memory", {})
    assert run.remarks == ["there is no metrics.csv"]


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ({"status": "done"}, "done"),
        ({"status": "stopped"}, "stopped"),
        ({"status": "running", "host": socket.gethostname(), "pid": os.getpid()} | STARTED, "running"),
        ({"status": "running", "host": socket.gethostname(), "pid": 2**22 + 1}, "unfinished"),
        ({"status": "running", "host": "elsewhere", "pid": 2**22 + 1}, "running"),
        ({"status": "new word"}, "unknown"),
    ],
)
def test_a_run_is_running_while_its_process_is(a_run, tmp_path, state, status):
    assert find([a_run(tmp_path / "run", status=state)])[0].status == status


def test_older_runs_are_done_when_they_learnt_from_all_they_should(a_run, tmp_path):
    a_run(tmp_path / "long")
    a_run(tmp_path / "short", config={"rollout": {"steps": 300}})
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "metrics.csv").write_text("entropy/mean,step\n0.3,1\n")
    runs = {run.folder.name: run for run in find([tmp_path])}
    assert [runs[name].status for name in ("long", "short", "bare")] == ["done", "unfinished", "unknown"]
    assert runs["bare"].remarks == ["there is no config.yaml, so its settings are unknown"]


def test_broken_files_of_a_run_are_remarks(a_run, tmp_path):
    folder = a_run(tmp_path / "run")
    (folder / "config.yaml").write_text("a: [1")
    (folder / "status.json").write_text('{"status": "do')
    (run,) = find([folder])
    assert run.config == {} and run.status == "unknown"
    assert run.remarks[0].startswith("config.yaml could not be read (no YAML: ") and "status.json" in run.remarks[1]
