"""Problems that are sometimes solved: one is likelier, the nearer its pass rate is to a half. arXiv:2504.03380"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from isentropic.rollout.sampling import Asked, Order, ProblemSampler, check_finite
from isentropic.task import Problem


@dataclass
class PassRate(ProblemSampler):
    """Chances are floor + 4 p (1 - p), of the pass rate p that it remembers. Within a rollout no problem comes twice
    before all have come. Raises ValueError for shares that are none."""

    unseen: float  # pass rate that is taken of a problem not asked yet
    floor: float  # what is left to problems always or never solved, which may have changed
    forget: float  # weight of the newest rate against what is remembered; 1 remembers the last alone
    rates: dict[int, float] = field(default_factory=dict[int, float], init=False)  # by the problem's id

    def __post_init__(self) -> None:
        for name, value, least in (("unseen", self.unseen, 0), ("floor", self.floor, 0), ("forget", self.forget, 0)):
            if not least <= value <= 1:
                raise ValueError(f"rollout.sampling.{name}={value} must be from 0 to 1")
        if not self.floor > 0 or not self.forget > 0:
            raise ValueError(f"rollout.sampling.floor={self.floor} and forget={self.forget} must be above 0")

    def check(self, problems: Sequence[Problem]) -> None:
        check_finite(problems, "pass_rate")

    def order(self, problems: Sequence[Problem], position: int, size: int, seed: int) -> Order:
        rate = torch.tensor([self.rates.get(problem.id, self.unseen) for problem in problems], dtype=torch.float64)
        generator = torch.Generator().manual_seed(seed * 1_000_003 + position)
        chance = self.floor + 4 * rate * (1 - rate)
        # who waits the shortest is drawn first
        waiting = torch.empty_like(chance).exponential_(generator=generator) / chance
        ranked: list[int] = waiting.argsort(stable=True).tolist()
        return lambda turn: ranked[turn % len(ranked)]

    def observe(self, asked: Sequence[Asked], total: int, size: int) -> None:
        for one in asked:
            known = self.rates.get(one.id, one.rate)
            self.rates[one.id] = known + self.forget * (one.rate - known)
