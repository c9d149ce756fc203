"""Which problem is asked next?"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from sys import maxsize
from typing import Any, NamedTuple

from isentropic.state import StateError
from isentropic.task import Problem

Order = Callable[[int], int]  # of the i-th prompt of a rollout, the place of its problem in the set


class Asked(NamedTuple):
    """What came of one prompt of a rollout."""

    turn: int  # which prompt of the rollout it was
    place: int  # of the problem in its set
    id: int  # of the problem
    rate: float  # share of its answers that were right


@dataclass
class ProblemSampler(ABC):
    """The same on every rank: an order depends on settings, seed, position and what all ranks observed alone.

    What it remembers are the fields that are not settings: init=False. They are part of the checkpoint.
    """

    @abstractmethod
    def order(self, problems: Sequence[Problem], position: int, size: int, seed: int) -> Order:
        """Of the rollout that begins after `position` prompts. It takes `size` of them, more where some are dropped."""

    def observe(self, asked: Sequence[Asked], total: int, size: int) -> None:
        """After each rollout: what its prompts came to, in their order; `total` turns were used up for `size`."""

    def check(self, problems: Sequence[Problem]) -> None:
        """Raises ValueError for a set that it cannot choose from."""

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, all fields that are no settings; for a checkpoint."""
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.init}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises StateError for the memory of another kind of sampler."""
        if state.keys() != self.state_dict().keys():
            raise StateError(
                f"the checkpoint's problem sampler remembers {sorted(state)} and {type(self).__name__} "
                f"{sorted(self.state_dict())}; resume with the rollout/sampling that wrote the checkpoint"
            )
        vars(self).update(state)


def check_finite(problems: Sequence[Problem], name: str) -> None:
    """Raises ValueError for a task that makes problems without end."""
    if len(problems) == maxsize:
        raise ValueError(
            f"rollout/sampling={name} looks at all problems, and this task makes them without end; take the first so "
            "many, as in rollout.problems=1000"
        )


def number_in(problem: Problem, column: str, key: str) -> float:
    """Raises ValueError where there is none."""
    value: Any = problem.columns
    for name in [column] if column in problem.columns else column.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        columns = ", ".join(map(str, problem.columns)) or "none"
        raise ValueError(
            f"{key}={column} is {value!r:.40} for the problem {problem.prompt!r:.60}, where a number must be; its "
            f"columns are {columns}"
        )
    return number
