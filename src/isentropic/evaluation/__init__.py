"""How good is it now?"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from isentropic.batch import Flag, Group
from isentropic.distributed import rank

PerProblem = Float[Tensor, " P"]
Counts = Int[Tensor, " P"]


class Score(Metric, ABC):
    """One number per problem, and their mean with a 95 % interval: `{name: …, name_low: …, name_high: …}`.

    Of several sets each its own, `{set/name: …}`, and under `name` the mean over sets, each of which weighs the same.
    A problem is answered on one rank; where a distributed sampler repeats it on another, the lowest rank counts.
    Raises ValueError for k or resamples below 1.
    """

    correct: list[Tensor]
    group: list[Tensor]
    asked_by: list[Tensor]  # the rank
    full_state_update = False
    is_differentiable = False
    higher_is_better = True

    def __init__(self, name: str, k: int, resamples: int) -> None:
        super().__init__()
        if k < 1 or resamples < 1:
            raise ValueError(f"k={k} and resamples={resamples} of {name} must be at least 1")
        self.name, self.k, self.resamples = name, k, resamples
        self.sets: dict[str, range] = {}  # the numbers of each set's problems; empty where all are one set
        for state in ("correct", "group", "asked_by"):
            self.add_state(state, default=[], dist_reduce_fx="cat")

    @abstractmethod
    def score(self, right: Counts, asked: Counts) -> PerProblem:
        """From the number of right completions and of all completions of each problem."""

    def update(self, correct: Flag, group: Group) -> None:
        """Verdicts of some completions; `group` numbers the problems of all ranks, a problem may come in parts."""
        self.correct.append(correct.long().to(self.device))
        self.group.append(group.long().to(self.device))
        self.asked_by.append(torch.full_like(self.group[-1], rank()))

    def compute(self) -> dict[str, Tensor]:
        """Raises ValueError where a problem has fewer than k completions, or nothing was answered."""
        numbers, right, asked = self.tallied()
        scores = self.per_problem(right, asked)
        parts = {name: scores[torch.isin(numbers, places(part, numbers))] for name, part in self.sets.items() if name}
        found = {f"{name}/{key}": value for name, part in parts.items() for key, value in self.told([part]).items()}
        return found | self.told(list(parts.values()) or [scores])

    def per_problem(self, right: Counts, asked: Counts) -> PerProblem:
        """Raises ValueError where a problem has fewer than k completions, or there is none."""
        if not len(asked):
            raise ValueError(f"{self.name} has no completions to judge; ask at least one problem")
        if asked.min() < self.k:
            raise ValueError(
                f"{self.name} needs {self.k} completions of every problem, one has {int(asked.min())};"
                " ask for more of each"
            )
        return self.score(right, asked)

    def told(self, sets: list[Tensor]) -> dict[str, Tensor]:
        """From scores [problems] of each set, the mean over sets of their means, and its interval; scalars."""
        low, high = interval(sets, self.resamples)
        mean = torch.stack([scores.mean() for scores in sets]).mean()
        return {self.name: mean, f"{self.name}_low": low, f"{self.name}_high": high}

    def logged(self) -> list[str]:
        """Its names, without those of bounds."""
        return [self.name, *(f"{name}/{self.name}" for name in self.sets if name)]

    def counts(self) -> tuple[Counts, Counts]:
        """Right and all completions of each problem, in the order of the problems' numbers."""
        return self.tallied()[1:]

    def tallied(self) -> tuple[Tensor, Counts, Counts]:
        """The problems' numbers [N], in order, with right answers and answers of each [N]."""
        correct, group, asked_by = (whole(x) for x in (self.correct, self.group, self.asked_by))
        problems, index = group.unique(return_inverse=True)
        first = torch.full_like(problems, torch.iinfo(torch.long).max)
        first = first.scatter_reduce(0, index, asked_by, "amin")
        counted = (asked_by == first[index]).long()
        zeros = torch.zeros_like(problems)
        return problems, zeros.scatter_add(0, index, counted * correct), zeros.scatter_add(0, index, counted)

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """A rank without problems gathers in the dtype of the others."""
        if not len(self.group):
            self.update(torch.empty(0, dtype=torch.bool), torch.empty(0, dtype=torch.long))
        super().sync(*args, **kwargs)


def whole(state: list[Tensor] | Tensor) -> Tensor:
    """[answers] on this rank before ranks are joined, of all ranks after."""
    if isinstance(state, Tensor):
        return state
    return torch.cat(state) if state else torch.empty(0, dtype=torch.long)


def places(part: range, like: Tensor) -> Tensor:
    """The numbers of a range as a tensor [N] beside `like`, of any shape."""
    return torch.arange(part.start, part.stop, device=like.device)


def interval(sets: list[Tensor], resamples: int) -> tuple[Tensor, Tensor]:
    """95 % of the mean over sets, by bootstrap over the scores [problems] of each (Efron 1979); two scalars.

    The same on any number of ranks, as its draws are seeded.
    """
    draw = torch.Generator().manual_seed(0)
    drawn: list[Tensor] = []
    for scores in sets:
        picks = torch.randint(len(scores), (resamples, len(scores)), generator=draw)
        drawn.append(scores.cpu()[picks].mean(-1))
    means = torch.stack(drawn).mean(0)
    low, high = means.quantile(torch.tensor([0.025, 0.975], dtype=means.dtype)).to(sets[0].device)
    return low, high
