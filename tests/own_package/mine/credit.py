"""Damped: likely tokens count for less."""

import math
from dataclasses import dataclass

import torch

from isentropic.algorithm.credit import CreditRule
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats


@dataclass(frozen=True)
class Damped(CreditRule):
    """Raises ValueError for a weight that would turn praise into blame."""

    likely: float  # probability from which a token is likely
    damp: float  # weight of likely tokens; 1 changes nothing

    def __post_init__(self) -> None:
        if self.damp < 0:
            raise ValueError(f"credit.damped.damp={self.damp} is a weight and must not be negative")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        return credit.scale(torch.where(now.logp > math.log(self.likely), self.damp, 1.0))
