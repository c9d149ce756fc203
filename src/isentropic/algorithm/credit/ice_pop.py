"""IcePop: tokens on which sampler and trainer disagree too much get no gradient. arXiv:2510.18855

Formula B: the authors' own account, with which prime-rl's and verl's code agree.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.credit import CreditRule, log_mismatch
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats


@dataclass(frozen=True)
class IcePop(CreditRule):
    """Each token's weight is k = p_old / p_sampler where low <= k <= high, and 0 elsewhere; the divisor stays.

    Raises ValueError where the sampler's log-probs are unknown, and for bounds that do not lie around 1.
    """

    corrects_sampler: ClassVar[bool] = True

    low: float  # alpha
    high: float  # beta

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 <= self.high:
            raise ValueError(f"credit.ice_pop.low={self.low} and high={self.high} are ratios and must lie around 1")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        ratio = log_mismatch(credit, batch, "ice_pop").exp()
        return credit.scale(torch.where((ratio >= self.low) & (ratio <= self.high), ratio, 0))
