"""What the tests ask of other processes has an answer in whatever state these are, and while they end."""

import os
import subprocess
import sys

import pytest
from fixtures.processes import children_alive, command_of, is_alive, is_child, stat_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")


def test_a_process_is_alive_then_a_zombie_then_gone():
    started = subprocess.Popen(["sleep", "600"])
    assert is_alive(started.pid) and is_child(started.pid, os.getpid())
    assert started.pid in children_alive()[os.getpid()] and command_of(started.pid)
    started.kill()
    os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
    assert stat_of(started.pid)[0] == "Z" and not is_alive(started.pid) and is_child(started.pid, os.getpid())
    assert started.pid not in children_alive().get(os.getpid(), [])
    started.wait()
    assert stat_of(started.pid) == [] and not is_alive(started.pid) and not is_child(started.pid, os.getpid())
    assert command_of(started.pid) == ""
