import json
import os
import shutil
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from isentropic.config.build import BadInput
from isentropic.runs.status import Ended, Status, alive, as_ended, read_status, recorded, write_status


def ended(folder: Path, error: BaseException | None = None, result: float | None = None) -> Status:
    try:
        with recorded(folder, ["seed=1"]) as status:
            status.result = result
            during = json.loads((folder / "status.json").read_text())
            assert (during["status"], during["pid"], during["host"]) == ("running", os.getpid(), socket.gethostname())
            if error:
                raise error
    except BaseException as same:
        assert same is error
    found = read_status(folder)
    assert found
    return found


def test_a_run_says_how_it_ended_and_with_what(tmp_path: Path):
    status = ended(tmp_path, result=0.25)
    assert (status.status, status.error, status.result) == ("done", None, 0.25)
    assert status.overrides == ["seed=1"] and status.versions["torch"] and status.started.endswith("+00:00")
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


@pytest.mark.parametrize(
    "error, status, told",
    [
        (RuntimeError("\n first\nsecond"), "failed", "RuntimeError: first"),
        (BadInput("lr=-1 must not be negative"), "failed", "lr=-1 must not be negative"),
        (AssertionError(), "failed", "AssertionError"),
        (SystemExit(1), "failed", "SystemExit: 1"),
        (SystemExit(128 + signal.SIGTERM), "stopped", "stopped by SIGTERM"),
        (KeyboardInterrupt(), "stopped", "stopped by SIGINT"),
    ],
)
def test_a_run_that_fails_or_is_stopped_says_why(tmp_path: Path, error: BaseException, status: str, told: str):
    found = ended(tmp_path, error)
    assert (found.status, found.error) == (status, told)


def test_ctrl_c_is_seen_behind_the_exit_that_lightning_makes_of_it(tmp_path: Path):
    with pytest.raises(SystemExit), recorded(tmp_path, []):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(1)
    status = read_status(tmp_path)
    assert status and status.status == "stopped"


def test_a_result_that_json_cannot_say_is_null(tmp_path: Path):
    assert ended(tmp_path, result=float("nan")).result is None


def written_before(folder: Path, seconds: float) -> float:
    """When the status now was written, which is so long ago."""
    began = time.time() - seconds
    os.utime(folder / "status.json", (began, began))
    return began


def test_the_seconds_of_all_parts_add_up_those_of_a_killed_one_too(tmp_path: Path):
    first = ended(tmp_path)
    first.status, first.seconds, first.started = "running", 100.0, "before"
    write_status(tmp_path, first)
    began = written_before(tmp_path, 100)
    (tmp_path / "metrics.csv").touch()
    os.utime(tmp_path / "metrics.csv", (began + 50, began + 50))
    begun = time.monotonic()
    second = ended(tmp_path)
    assert 150 <= second.seconds <= 150.1 + time.monotonic() - begun and second.started == "before"


def test_a_run_lives_while_its_process_does(tmp_path: Path):
    status = ended(tmp_path)
    assert not alive(tmp_path, status)
    status.status = "running"
    assert alive(tmp_path, status)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    status.pid = child
    assert not alive(tmp_path, status)


def test_a_copy_of_a_folder_is_not_the_run_and_one_that_has_moved_is(tmp_path: Path):
    (folder := tmp_path / "run").mkdir()
    status = replace(ended(folder), status="running")
    write_status(folder, status)
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "link").symlink_to("run")
    assert alive(folder, status) and alive(tmp_path / "link", status) and not alive(tmp_path / "copy", status)
    assert not alive(tmp_path / "copy", replace(status, host="elsewhere"))
    assert alive(tmp_path / "copy", replace(status, place=None)), "an older file does not say"
    assert alive(folder.rename(tmp_path / "moved"), status)


def test_files_of_the_future_make_a_run_no_longer(tmp_path: Path):
    first = replace(ended(tmp_path), status="running", seconds=100.0)
    write_status(tmp_path, first)
    (tmp_path / "metrics.csv").touch()
    os.utime(tmp_path / "metrics.csv", (4e9, 4e9))
    begun = time.monotonic()
    assert ended(tmp_path).seconds <= 101 + time.monotonic() - begun


def test_another_process_with_its_number_is_not_the_run(tmp_path: Path):
    status = ended(tmp_path)
    status.status = "running"
    assert status.process_start is not None
    assert not alive(tmp_path, replace(status, process_start=status.process_start - 1))
    assert not alive(tmp_path, replace(status, boot="of another day"))
    assert not alive(tmp_path, replace(status, process_start=None, boot=None)), "an older file with our own number"


def test_a_run_of_another_host_is_gone_once_it_writes_nothing(tmp_path: Path):
    status = replace(ended(tmp_path), status="running", host="elsewhere")
    assert alive(tmp_path, status)
    os.utime(tmp_path / "status.json", (0, 0))
    assert not alive(tmp_path, status)


@pytest.mark.parametrize("text", [None, "", "{", "[1]"])
def test_a_folder_without_a_status_has_none(tmp_path: Path, text: str | None):
    if text is not None:
        (tmp_path / "status.json").write_text(text)
    assert read_status(tmp_path) is None


def test_the_time_that_a_run_was_dead_is_not_its_own(tmp_path: Path):
    first = ended(tmp_path)
    first.status, first.seconds = "running", 100.0
    write_status(tmp_path, first)
    began = written_before(tmp_path, 10000)
    for name, later in (("metrics.csv", 50), ("config.yaml", 5000), ("train.log", 5000)):  # the latter by its successor
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (began + later, began + later))
    begun = time.monotonic()
    assert 150 <= ended(tmp_path).seconds <= 150.1 + time.monotonic() - begun


def test_on_a_full_disk_the_status_still_says_that_the_run_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(RuntimeError), recorded(tmp_path, ["seed=1"]):
        monkeypatch.setattr("isentropic.runs.files.os.replace", full)
        raise RuntimeError("no room")
    status = read_status(tmp_path)
    assert status and (status.status, status.error) == ("failed", "RuntimeError: no room")
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_a_run_that_ended_early_is_done_and_says_why(tmp_path: Path):
    with recorded(tmp_path, []) as status:
        status.result, status.why = as_ended(Ended(0.5, "the score did not rise"))
    found = read_status(tmp_path)
    assert found and (found.status, found.result, found.why) == ("done", 0.5, "the score did not rise")
    assert as_ended(0.5) == Ended(0.5, None)
