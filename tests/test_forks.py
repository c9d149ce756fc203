"""What runs in a fork of a warm process ends as a program does, and none outlives who asked for it."""

import sys
import time
from pathlib import Path

import pytest
from fixtures.processes import is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")

ENDS = """
import atexit, os, sys, threading
atexit.register(lambda: print("and leaves", flush=True))
threading.Thread(target=lambda: print("says", *sys.argv[1:], os.environ.get("WHOSE"), os.getcwd())).start()
if sys.argv[1] == "killed":
    os.kill(os.getpid(), 9)
sys.exit(int(sys.argv[1]) if sys.argv[1].isdigit() else sys.argv[1])
"""


@pytest.mark.slow
def test_a_fork_ends_with_the_code_of_its_program_after_what_it_does_last(forks, tmp_path: Path):
    (tmp_path / "ends.py").write_text(ENDS)
    each = [(["0"], {"WHOSE": "mine"}), (["7"], {}), (["no"], {}), (["killed"], {})]
    fine, code, word, killed = forks(tmp_path / "ends.py", *each, where=tmp_path)
    assert (fine.returncode, fine.stdout) == (0, f"says 0 mine {tmp_path}\nand leaves\n")
    assert (code.returncode, code.stdout) == (7, f"says 7 None {tmp_path}\nand leaves\n")
    assert (word.returncode, word.stderr) == (1, "no\n") and killed.returncode == -9
    (missing,) = forks("isentropic.no_such", ([], {}))
    assert missing.returncode == 1 and "No module named isentropic.no_such" in missing.stderr


WAITS = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


@pytest.mark.slow
def test_a_fork_that_takes_too_long_is_killed_and_so_is_one_whose_asker_is_gone(forks, warm, tmp_path: Path):
    (tmp_path / "waits.py").write_text(WAITS)
    (late,) = forks(tmp_path / "waits.py", ([], {}), limit=0.5)
    assert late.returncode == -9
    lost = warm.fork(tmp_path / "waits.py", [], {}, None, "plain")
    until(lambda: lost.result().stdout == f"{lost.pid}\n")
    assert is_alive(lost.pid)
    lost.leave()
    until(lambda: not is_alive(lost.pid))


STARTS = """
import signal, subprocess, sys
for number in signal.SIGTERM, signal.SIGKILL:
    told = subprocess.Popen([sys.executable, sys.argv[1], "and", "waits"], stdout=subprocess.PIPE, text=True)
    print(told.stdout.readline(), end="")
    told.send_signal(number)
    print(told.wait())
print(subprocess.run([sys.executable, "-c", "import sys; sys.exit(3)"]).returncode)
"""
HEARS = "import os, sys, time; print(os.getpid(), *sys.argv[1:], 'torch' in sys.modules, flush=True); time.sleep(600)"


@pytest.mark.slow
def test_what_a_fork_starts_is_a_fork_too_and_ends_by_its_signals(forks, tmp_path: Path):
    for name, text in (("starts.py", STARTS), ("hears.py", HEARS)):
        (tmp_path / name).write_text(text)
    (found,) = forks(tmp_path / "starts.py", ([tmp_path / "hears.py"], {}))
    lines = found.stdout.splitlines()
    assert [line.split()[1:] for line in lines[:4:2]] == [["and", "waits", "True"]] * 2 and found.stderr == ""
    assert lines[1::2] == ["-15", "-9"] and lines[4] == "3"
    until(lambda: not any(is_alive(int(line.split()[0])) for line in lines[:4:2]))


def until(holds):
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
