"""A command whose terminal has closed, or whose pipe nobody reads any more, goes on without a screen."""

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

GONE = errno.EIO, errno.EPIPE, errno.ENXIO


class Screen:
    """A stream that, once what it writes to is gone, writes nowhere."""

    def __init__(self, stream: Any) -> None:  # what pytest puts in place of a terminal included
        self.stream = stream

    def write(self, text: str) -> int:
        try:
            return self.stream.write(text)
        except OSError as error:
            return self.leave(error, len(text))

    def flush(self) -> None:
        try:
            self.stream.flush()
        except OSError as error:
            self.leave(error)

    def leave(self, error: OSError, written: int = 0) -> int:
        """Raises it where there is still something to write to."""
        if error.errno not in GONE:
            raise error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def lasting_screen() -> Generator[None]:
    """Inside, and at Python's end, what is said costs no run."""
    before = sys.stdout, sys.stderr  # None where the shell closed one
    screens = [stream and cast(TextIO, Screen(stream)) for stream in before]
    sys.stdout, sys.stderr = screens
    try:
        yield
    finally:
        for screen in filter(None, screens):
            screen.flush()
        sys.stdout, sys.stderr = before
