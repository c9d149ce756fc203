"""Judges answers in caged processes, because what a model writes may hang, break or attack any library.

A time limit by signal fails off the main thread and while a library holds the interpreter; killing does not.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, get_args

from isentropic.task import Status, Verdict
from isentropic.tools import Outcome, limits
from isentropic.tools.cage import STRICT, Cage
from isentropic.tools.pool import Pool
from isentropic.tools.probe import checked
from isentropic.tools.process import Settings

LENGTH = 4096  # bytes of a verdict
TIMEOUT = Verdict(0.0, False, "timeout")
CRASH = Verdict(0.0, False, "crash")

Arguments = tuple[Any, ...]


class JudgePool:
    """Calls a function `judge`, given as module:name, with the arguments of each call, and returns its verdicts.

    The function returns (reward, correct, status). A call of more than `timeout` CPU seconds is a "timeout", one that
    raises or ends its process is a "crash". Equal calls of a batch are judged once. Raises ValueError for limits that
    allow nothing and for a machine whose cage is too weak, RuntimeError if a process cannot start.
    """

    def __init__(
        self, judge: str, workers: int, timeout: float, memory: float, cage: Cage = STRICT,
        warm: Sequence[tuple[str, Arguments]] = (),
    ) -> None:  # fmt: skip
        """Processes start at the first call, with the trusted calls of `warm`. `memory` is in GiB for each answer."""
        for name, value in (("workers", workers), ("timeout", timeout), ("memory", memory)):
            if value <= 0:
                raise ValueError(f"task.{name}={value} lets no answer be judged; it must be above 0")
        self.settings = (judge, workers, timeout, memory, cage, warm)
        self.notes = checked(cage)
        self.pool = Pool(Settings(judge, limits(timeout, memory, LENGTH), warm=warm), workers)

    def __call__(self, calls: Sequence[Arguments]) -> list[Verdict]:
        """A verdict per call of the judge, in order; what hung or broke earns 0, by the word timeout or crash."""
        return [verdict(outcome) for outcome in self.pool(calls)]

    def __reduce__(self) -> tuple[type["JudgePool"], tuple[Any, ...]]:
        return JudgePool, self.settings  # a copy, or one in another process, starts processes of its own

    def close(self) -> None:
        """Ends the processes of the pool."""
        self.pool.close()


def verdict(outcome: Outcome) -> Verdict:
    """Read with care: what judged may be what was judged."""
    if outcome.word != "ok":
        return TIMEOUT if outcome.word == "timeout" else CRASH
    try:
        reward, correct, status = json.loads(outcome.said)
        sound = type(reward) in (int, float) and math.isfinite(reward) and isinstance(correct, bool)
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return CRASH
    return Verdict(float(reward), correct, status) if sound and status in get_args(Status) else CRASH
