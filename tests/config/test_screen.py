import os
import pty
import sys

import pytest

from isentropic.config.screen import Screen, lasting_screen


def closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def closed_terminal():
    outside, inside = pty.openpty()
    os.close(outside)
    return inside


@pytest.mark.parametrize("gone", [closed_pipe, closed_terminal])
def test_a_run_goes_on_without_its_screen(gone, monkeypatch):
    with open(gone(), "w") as stream:  # what it still holds at its end goes nowhere too
        monkeypatch.setattr(sys, "stdout", stream)
        with lasting_screen():
            for _ in range(3):
                print("said", flush=True)
        assert sys.stdout is stream


def test_a_full_disk_is_no_screen_that_is_gone():
    with open("/dev/full", "w") as stream, pytest.raises(OSError, match="No space"):
        try:
            print("said", file=Screen(stream), flush=True)
        finally:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
