"""A reward function as verl takes it (`custom_reward_function`), as it is.

def compute_score(data_source, solution_str, ground_truth, extra_info=None) -> float | dict with "score"
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from isentropic.reward import Answer, OnError, Reward, Value
from isentropic.reward.functions import asked_for, check_arguments, function_at, kept_by
from isentropic.reward.isolated import Pool, score_in
from isentropic.reward.limits import within
from isentropic.task import Problem

OURS = ("data_source", "solution_str", "ground_truth", "extra_info")


@dataclass(frozen=True)
class Verl(Reward):
    """Called for one answer at a time. Raises ValueError for a function that does not exist."""

    weight: float  # of it in the sum
    function: str  # package.module.name or folder/file.py:name
    timeout: float | None  # seconds for one answer
    on_error: OnError
    isolated: bool  # in the judges' processes
    workers: int  # processes that call
    memory: float  # GiB of one process

    def __post_init__(self) -> None:
        if self.isolated and self.timeout is None:
            raise ValueError("reward.verl.timeout=null has no limit, which isolated=true needs; 5 seconds would do")
        function_at(self.function)

    @property
    def title(self) -> str:
        return self.function

    def kept(self) -> dict[str, Any]:
        return {} if self.isolated else kept_by(function_at(self.function))

    @property
    def goes_on(self) -> bool:
        return self.on_error == "zero"

    def __call__(self, answers: Sequence[Answer]) -> Sequence[Value]:
        calls = [arguments(answer) for answer in answers]
        return self.pool(calls) if self.isolated else [self.one(call) for call in calls]

    def one(self, given: dict[str, Any]) -> Value:
        """The function's value for one answer, within the timeout, or the error that it raised."""
        function = function_at(self.function)
        try:
            return score_in(within(self.timeout, function, **asked_for(function, given)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return error

    def check(self, problem: Problem) -> None:
        check_arguments(self.function, OURS, problem)

    def close(self) -> None:
        if "pool" in vars(self):
            self.pool.close()

    @cached_property
    def pool(self) -> Pool:
        """Processes that run the function, started by the first answer; for isolated=true, which has a timeout."""
        assert self.timeout is not None
        return Pool("verl", self.function, self.workers, self.timeout, self.memory)


def arguments(answer: Answer) -> dict[str, Any]:
    """As verl reads them from its parquet files, where `data_source` and `extra_info` are columns."""
    columns = answer.problem.columns
    return {
        "data_source": columns.get("data_source", ""),
        "solution_str": answer.text,
        "ground_truth": answer.problem.reference,
        "extra_info": columns.get("extra_info", dict(columns)),
    }
