"""With programs in the place of a server: they hold what one holds, and end no more willingly."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path

import pytest

from isentropic.sampler.vllm import keeper
from isentropic.sampler.vllm.http import Service

pytestmark = pytest.mark.skipif(not keeper.here(), reason="there is no /proc")

LIMIT = 300.0  # seconds, for a machine that does much else
# with a child, as an engine is, that no SIGTERM ends; both hold a block of shared memory
SERVER = """
import os, signal, sys, time
from multiprocessing import resource_tracker, shared_memory
block = shared_memory.SharedMemory(name=sys.argv[2], create=True, size=64)
resource_tracker.unregister(block._name, "shared_memory")
engine = os.fork()
if engine == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
elif len(sys.argv) > 3:
    sys.exit(int(sys.argv[3]))
note = os.path.join(sys.argv[1], 'engine' if engine == 0 else 'server')
open(note, "w").write(str(os.getpid()))
os.rename(note, f"{note}.txt")  # whole, for whoever waits for it
while True:
    time.sleep(600)
"""
TRAINER = """
import os, subprocess, sys, time
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("keeper", sys.argv.pop(1))
keeper = module_from_spec(spec)
spec.loader.exec_module(keeper)
folder = keeper.private_folder()
subprocess.Popen([sys.executable, "-I", keeper.__file__, str(folder), str(os.getpid()), sys.executable, *sys.argv[1:2],
                  str(folder), *sys.argv[2:]], start_new_session=True)
print(folder, flush=True)
time.sleep(600)
"""


def await_(what):
    end = time.monotonic() + LIMIT
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def place():
    """A folder for temporary files with a name short enough for sockets in it, which those of tests are not."""
    with tempfile.TemporaryDirectory(prefix="place-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def trainer(tmp_path, place):
    """Starts one whose temporary files lie in `place`: the process, and the folder of its server."""
    (tmp_path / "server.py").write_text(SERVER)
    begun = []

    def start():
        variables = os.environ | {"TMPDIR": str(place)}
        arguments = [sys.executable, "-c", TRAINER, keeper.__file__, str(tmp_path / "server.py"), name_of(tmp_path)]
        begun.append(subprocess.Popen(arguments, env=variables, stdout=subprocess.PIPE, text=True))
        return begun[-1], Path(begun[-1].stdout.readline().strip())

    yield start
    for process in begun:
        process.kill()
        process.wait()


def name_of(tmp_path):
    return f"isentropic-test-{os.getpid()}-{tmp_path.name[-20:]}"


def pids(folder):
    await_(lambda: all((folder / f"{who}.txt").exists() for who in ("server", "engine")))
    await_(lambda: (folder / keeper.OWNER).exists() and len(owners(folder)) == 3)
    return [int((folder / f"{who}.txt").read_text()) for who in ("server", "engine")]


def owners(folder):
    return {int(pid) for pid in json.loads((folder / keeper.OWNER).read_text())["processes"]}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_and_all_that_it_holds_end_with_a_trainer_however_it_ends(trainer, tmp_path, place, number):
    process, folder = trainer()
    assert folder.stat().st_mode & 0o777 == 0o700 and folder.parent == place
    left = pids(folder)
    block = keeper.MEMORY / name_of(tmp_path)
    assert block.exists()
    process.send_signal(number)
    await_(lambda: not folder.exists())
    assert not any(keeper.begun(pid) for pid in left) and not block.exists()


def test_a_server_that_ends_by_itself_ends_what_it_has_started_and_its_code_is_told(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    folder = tmp_path / "own"
    folder.mkdir()
    server = [sys.executable, str(tmp_path / "server.py"), str(folder), name_of(tmp_path), "7"]
    kept = subprocess.run(
        [sys.executable, "-I", keeper.__file__, str(folder), str(os.getpid()), *server],
        start_new_session=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert kept.returncode == 7
    assert not folder.exists() and not (keeper.MEMORY / name_of(tmp_path)).exists()


def test_what_a_kill_of_all_leaves_the_next_start_takes_away(trainer, tmp_path, place, monkeypatch):
    process, folder = trainer()
    everyone = {*pids(folder), *owners(folder)}
    await_(lambda: name_of(tmp_path) in noted(folder))
    for pid in everyone - {process.pid}:
        os.kill(pid, signal.SIGSTOP)  # else the first that goes would be noticed
    process.kill()
    process.wait()
    for pid in everyone - {process.pid}:
        os.kill(pid, signal.SIGKILL)
    await_(lambda: not any(keeper.begun(pid) for pid in everyone))
    assert folder.exists() and (keeper.MEMORY / name_of(tmp_path)).exists()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    mine = keeper.private_folder()
    assert not folder.exists() and not (keeper.MEMORY / name_of(tmp_path)).exists()
    keeper.sweep(place)
    assert mine.exists(), "a folder whose owner runs is gone"


def test_what_a_keeper_leaves_that_is_killed_itself_the_trainer_takes_away(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    folder = tmp_path / "own"
    folder.mkdir()
    server = [sys.executable, str(tmp_path / "server.py"), str(folder), name_of(tmp_path)]
    kept = subprocess.Popen(
        [sys.executable, "-I", keeper.__file__, str(folder), str(os.getpid()), *server], start_new_session=True
    )
    await_(lambda: name_of(tmp_path) in noted(folder))
    left = keeper.session(kept.pid)
    assert len(left) >= 3
    kept.kill()
    Service(f"unix:{folder}/http", 5.0, kept, None).stop()
    assert not folder.exists() and not (keeper.MEMORY / name_of(tmp_path)).exists()
    assert not any(keeper.begun(pid) for pid in left)


def noted(folder):
    file = folder / keeper.SHARED
    return file.read_text() if file.exists() else ""


def test_folders_that_are_not_known_to_be_left_stay(tmp_path):
    claims = {
        "new": None,
        "elsewhere": {"place": ["another boot", "pid:[1]"], "processes": {"1": "1"}},
        "running": {
            "place": keeper.here(),
            "processes": {"999999999": "1", str(os.getpid()): keeper.begun(os.getpid())},
        },
        "odd": {"place": keeper.here(), "processes": {"me": "1"}},
        "left": {"place": keeper.here(), "processes": {str(os.getpid()): "1"}},
    }
    for name, claim in claims.items():
        folder = tmp_path / f"{keeper.PREFIX}{name}"
        folder.mkdir()
        if claim:
            (folder / keeper.OWNER).write_text(json.dumps(claim))
    (tmp_path / f"{keeper.PREFIX}link").symlink_to(tmp_path / f"{keeper.PREFIX}left")
    keeper.sweep(tmp_path)
    stayed = {path.name.removeprefix(keeper.PREFIX) for path in tmp_path.iterdir()}
    assert stayed == {"new", "elsewhere", "running", "odd", "link"}


def test_weights_for_somebody_elses_server_go_at_the_next_start_where_a_kill_left_them(tmp_path):
    """They are as large as the model."""
    code = "import os; from isentropic.sampler.vllm import keeper; print(keeper.weights_folder(), flush=True); "
    code += "os.kill(os.getpid(), 9)"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    killed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    folder = Path(killed.stdout.strip())
    (folder / "model.safetensors").write_bytes(bytes(8))
    assert folder.parent == tmp_path and folder.exists()
    subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert not folder.exists() and len(list(tmp_path.iterdir())) == 1


def test_memory_that_another_process_holds_stays(tmp_path):
    block = shared_memory.SharedMemory(create=True, size=64)
    resource_tracker.unregister(block._name, "shared_memory")
    (tmp_path / "folder").mkdir()
    assert block.name in keeper.held([os.getpid()])
    keeper.clear(tmp_path / "folder", {block.name})
    assert (keeper.MEMORY / block.name).exists() and not (tmp_path / "folder").exists()
    block.close()
    (keeper.MEMORY / block.name).unlink()


def test_a_semaphore_is_known_by_the_name_that_it_was_given_after_it_was_mapped():
    semaphore = multiprocessing.get_context("spawn").Semaphore()
    name = f"sem.{semaphore._semlock.name.lstrip('/')}"
    assert (keeper.MEMORY / name).exists() and name in keeper.held([os.getpid()])


def test_a_long_path_for_temporary_files_leaves_room_for_the_names_of_sockets(tmp_path, monkeypatch):
    long = tmp_path / ("a" * 90)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    folder = keeper.private_folder()
    assert folder.parent == Path("/tmp")
    folder.rename(tmp_path / "away")
