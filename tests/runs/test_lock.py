import os
import subprocess
import sys
from pathlib import Path

import pytest

from isentropic.runs.lock import locked, refuse_overwriting
from isentropic.runs.status import read_status, recorded, write_status

HOLD = """
import sys
from pathlib import Path
from isentropic.runs.lock import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the folder."""
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdin=-1, stdout=-1, text=True, env=variables)
    assert process.stdout and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_folder_is_of_one_process_and_free_again_when_that_is_killed(tmp_path: Path, holder):
    with pytest.raises(ValueError, match="is the folder of a run that goes on in another process"), locked(tmp_path):
        pass
    holder.kill()
    holder.wait()
    with locked(tmp_path):
        assert list(tmp_path.iterdir()) == []
    with locked(tmp_path):
        pass


def test_a_status_of_a_process_that_runs_is_enough_and_one_that_has_ended_is_none(tmp_path: Path, holder):
    other = tmp_path / "other"
    other.mkdir()
    with recorded(other, []):
        pass
    status = read_status(other)
    assert status
    status.status, status.pid, status.process_start = "running", holder.pid, None
    write_status(other, status)
    with pytest.raises(ValueError, match=rf"goes on in process {holder.pid} on "), locked(other):
        pass
    holder.kill()
    holder.wait()
    with locked(other):
        pass


@pytest.mark.parametrize("ckpt_path, learns", [(None, True), ("elsewhere/last.ckpt", True), ("last", False)])
def test_what_does_not_go_on_with_an_earlier_run_does_not_take_its_place(tmp_path: Path, ckpt_path, learns: bool):
    (tmp_path / "checkpoints").mkdir()
    refuse_overwriting(tmp_path, ckpt_path, learns)
    (tmp_path / "checkpoints/last.ckpt").symlink_to("rollout_6.ckpt")
    with pytest.raises(ValueError, match="holds an earlier run, whose checkpoint would be lost; "):
        refuse_overwriting(tmp_path, ckpt_path, learns)


def test_what_goes_on_with_it_does(tmp_path: Path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/last.ckpt").touch()
    refuse_overwriting(tmp_path, "last", learns=True)
    refuse_overwriting(tmp_path, f"{tmp_path}/checkpoints/rollout_3.ckpt", learns=True)
