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
    with open(gone(), "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with lasting_screen():
            for _ in range(3):
                print("said", flush=True)
        assert sys.stdout is stream


def test_a_stream_that_the_shell_closed_stays_none(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with lasting_screen():
        print("said")
    assert sys.stdout is None


@pytest.mark.parametrize("gone", [closed_pipe, closed_terminal])
def test_what_is_still_held_at_the_end_goes_nowhere_too(gone, monkeypatch):
    with open(gone(), "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with lasting_screen():
            print("said")


def test_a_full_disk_is_no_screen_that_is_gone():
    with open("/dev/full", "w") as stream, pytest.raises(OSError, match="No space"):
        try:
            print("said", file=Screen(stream), flush=True)
        finally:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
