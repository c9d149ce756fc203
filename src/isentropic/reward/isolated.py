"""Functions of one's own in the judges' processes, where what they parse or run can neither hang nor break the run.

Text that a function evaluates may name nothing private, no frame, and no builtin that acts, as with any judge.
A judge is named `isentropic.reward.isolated:trl=package.module.name`, so that the function is there before the limits.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from isentropic.reward import Value
from isentropic.reward.functions import asked_for, function_at
from isentropic.reward.limits import settled
from isentropic.task import Status, Verdict
from isentropic.task.judge_pool import JudgePool
from isentropic.tools.guard import guard

Judged = tuple[float, bool, Status]
WORDS = {
    "timeout": "did not come back within {timeout:g} seconds (timeout)",
    "crash": "raised, ended its process or gave no finite number; isolated=false would tell which",
}


def __getattr__(name: str) -> Callable[[Mapping[str, Any]], Judged]:
    """The judge that a caged process looks up by name."""
    convention, equals, path = name.partition("=")
    if not equals:
        raise AttributeError(name)
    function, several = function_at(path), convention == "trl"

    def judge(given: Mapping[str, Any]) -> Judged:
        guard()
        value = settled(function, **asked_for(function, given))
        if several:
            (value,) = value
        value = score_in(value)
        if value is None:
            return 0.0, False, "unparseable"
        if isinstance(value, str) or not isfinite(value):
            raise ValueError(value)
        return float(value), True, "right"

    return judge


def score_in(value: Any) -> Any:
    """verl's functions may give a record with the score in it."""
    return value["score"] if isinstance(value, Mapping) and "score" in value else value


class Pool:
    """Judges' processes for one function, which start at the first call."""

    def __init__(self, convention: str, path: str, workers: int, timeout: float, memory: float) -> None:
        self.judges = JudgePool(f"{__name__}:{convention}={path}", workers, timeout, memory)
        self.timeout = timeout

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[Value]:
        """A value per call, or the error that it ended in; each call holds the function's keyword arguments."""
        return [self.value(verdict) for verdict in self.judges([(dict(call),) for call in calls])]

    def value(self, verdict: Verdict) -> Value:
        """A float, None for an answer that the function left out, or a TimeoutError for one that hung or crashed."""
        if verdict.status in WORDS:
            return TimeoutError(WORDS[verdict.status].format(timeout=self.timeout))
        return None if verdict.status == "unparseable" else verdict.reward

    def close(self) -> None:
        """Ends the processes of the pool."""
        self.judges.close()
