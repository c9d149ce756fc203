"""A stop by signal: the first asks all ranks to end the rollout, the second stops at once."""

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from isentropic.distributed import largest, rank
from isentropic.runs.status import ASKS, heard

Handler = Callable[[int, FrameType | None], Any] | int | None


class GracefulStop:
    """The first CTRL-C, SIGTERM or SIGHUP asks; the second leaves at once. A cluster's warning that time is short, such
    as SIGUSR1, asks as the first does, however often it comes."""

    def __init__(self) -> None:
        self.asked: int | None = None  # the signal to stop by
        self.again = False  # whether the next that is no warning leaves at once
        self.handlers: dict[int, Handler] = {}  # of before, by signal

    def reset(self) -> None:
        self.asked, self.again = None, False

    def listen(self, *numbers: int) -> None:
        if threading.current_thread() is threading.main_thread():
            self.handlers |= {number: signal.signal(number, self.ask) for number in heard(*numbers)}

    def ask(self, number: int, frame: FrameType | None) -> None:
        if number in ASKS:
            if self.again:
                leave(number)
            self.again = True
        if self.asked is None:
            self.asked = number
            if rank() == 0:
                print(f"Stopping after this rollout, with a checkpoint; {why(number)}.", file=sys.stderr, flush=True)

    def agreed(self) -> int:
        """The signal by which all ranks leave, 0 for none; one for all, as the highest exit code is that of the job."""
        return largest(self.asked or 0)

    def release(self) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        self.handlers = {}


def why(number: int) -> str:
    return "again stops at once" if number in ASKS else "the time limit is near"


def leave(number: int) -> None:
    """As shells count it; a KeyboardInterrupt would be swallowed in a spawned rank, and the others wait for ever."""
    raise SystemExit(128 + number)
