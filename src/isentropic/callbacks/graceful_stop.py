"""A stop by signal: the first asks all ranks to end the rollout, the second stops at once."""

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from isentropic.distributed import largest, rank

STOP = signal.SIGINT, signal.SIGTERM
# What clusters send before a time limit, some of them to every process and more than once; Windows has none of these.
LIMIT = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))

Handler = Callable[[int, FrameType | None], Any] | int | None


class GracefulStop:
    """The first CTRL-C or SIGTERM asks; the second leaves at once. SIGUSR1 or SIGUSR2, a cluster's warning that time is
    short, asks as the first does, however often it comes."""

    def __init__(self) -> None:
        self.asked: int | None = None  # the signal to stop by
        self.again = False  # whether the next CTRL-C or SIGTERM leaves at once
        self.handlers: dict[int, Handler] = {}  # of before, by signal

    def reset(self) -> None:
        self.asked, self.again = None, False

    def listen(self, *numbers: int) -> None:
        if threading.current_thread() is threading.main_thread():
            self.handlers |= {number: signal.signal(number, self.ask) for number in numbers}

    def ask(self, number: int, frame: FrameType | None) -> None:
        if number in STOP:
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
    return "again stops at once" if number in STOP else "the time limit is near"


def leave(number: int) -> None:
    """As shells count it; a KeyboardInterrupt would be swallowed in a spawned rank, and the others wait for ever."""
    raise SystemExit(128 + number)
