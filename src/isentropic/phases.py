"""What this process does at present, and how long it took before, for whoever watches it.

with doing("verification"):      # within a rollout it is known as rollout/verification
    ...
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import monotonic

RECENT = 20  # times of a phase that are remembered


@dataclass(eq=False)
class Phase:
    name: str  # with those around it
    thread: int
    began: float  # of `monotonic`
    once: bool = False  # of a run, and so long that it is to be named


RUNNING: list[Phase] = []  # of all threads, each one's innermost last
WATCHERS: list[Callable[[Phase], None]] = []  # told of each phase when it begins
SECONDS: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))


@contextmanager
def doing(name: str, once: bool = False) -> Generator[None]:
    thread = threading.get_ident()
    around = next((phase.name for phase in reversed(RUNNING) if phase.thread == thread), None)
    phase = Phase(f"{around}/{name}" if around else name, thread, monotonic(), once)
    RUNNING.append(phase)
    try:
        for watcher in list(WATCHERS):
            watcher(phase)
        yield
        SECONDS[phase.name].append(monotonic() - phase.began)
    except BaseException as error:
        if not hasattr(error, "phase"):
            error.phase = phase.name  # pyright: ignore[reportAttributeAccessIssue]
        raise
    finally:
        RUNNING.remove(phase)


def phase_of(error: BaseException) -> str | None:
    """The innermost phase in which an error was raised."""
    return getattr(error, "phase", None)


def usual(name: str) -> float | None:
    """The median of a phase's recent times in seconds; None for one that has never ended."""
    times = list(SECONDS[name]) if name in SECONDS else []
    return median(times) if times else None


def innermost() -> list[Phase]:
    """What each thread does at present."""
    return list({phase.thread: phase for phase in list(RUNNING)}.values())
