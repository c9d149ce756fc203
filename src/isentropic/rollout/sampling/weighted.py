"""Problems as often as a column says: twice the weight is asked twice as often."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

import torch

from isentropic.rollout.sampling import Order, ProblemSampler, check_finite, number_in
from isentropic.task import Problem


@dataclass
class Weighted(ProblemSampler):
    """An epoch has as many prompts as there are problems; in it, each comes its share of times, rounded by chance."""

    column: str  # of weights, 0 or above

    def check(self, problems: Sequence[Problem]) -> None:
        check_finite(problems, "weighted")
        weights = [number_in(problem, self.column, "rollout.sampling.column") for problem in problems]
        if not all(isfinite(weight) and weight >= 0 for weight in weights) or not sum(weights) > 0:
            raise ValueError(f"rollout.sampling.column={self.column} must hold weights from 0 on, not all 0")

    def order(self, problems: Sequence[Problem], position: int, size: int, seed: int) -> Order:
        weights = tuple(number_in(problem, self.column, "rollout.sampling.column") for problem in problems)

        def at(turn: int) -> int:
            epoch, index = divmod(position + turn, len(weights))
            return epoch_of(weights, seed, epoch)[index]

        return at


@lru_cache(maxsize=2)
def epoch_of(weights: tuple[float, ...], seed: int, epoch: int) -> list[int]:
    """Systematic sampling: one draw for all, so that counts are the shares of the weights, rounded up or down."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    ends = torch.tensor(weights, dtype=torch.float64).cumsum(0)
    count = len(weights)
    points = (torch.arange(count) + torch.rand(1, generator=generator, dtype=torch.float64)) / count * ends[-1]
    chosen = torch.searchsorted(ends, points, right=True).clamp(max=count - 1)
    return chosen[torch.randperm(count, generator=generator)].tolist()
