"""STEER: the more a token would move the entropy, either way, the less it counts. arXiv:2510.10150"""

from dataclasses import dataclass
from math import log

import torch

from isentropic.algorithm.credit import CreditRule
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats
from isentropic.reductions import masked_max


@dataclass(frozen=True)
class Steer(CreditRule):
    """Weight least ** (move / max move), with move = |A| p / p_old (1 - p) |ln p + H|, without gradient.

    So the token that moves the entropy most has the weight `least`. Its move is the largest of the optimizer step on
    all ranks; released code takes the largest of each micro-batch, which `algorithm.scope` repeats. The divisor stays.
    Raises ValueError for a weight outside 0 to 1 and for a floor that is not positive.
    """

    least: float  # the smallest weight
    floor: float  # a largest move below this counts as this, so that weights tend to 1 where nothing moves

    def __post_init__(self) -> None:
        if not 0 < self.least <= 1:
            raise ValueError(f"credit.steer.least={self.least} is a weight and must be above 0 and at most 1")
        if not self.floor > 0:
            raise ValueError(f"credit.steer.floor={self.floor} is divided by and must be above 0")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        ratio = (now.logp - batch.old_logp).clamp(-20, 20).exp()
        move = (credit.advantages * ratio * (1 - now.logp.exp()) * (now.logp + now.entropy)).abs()
        move = torch.where(credit.mask & move.isfinite(), move, 0)
        return credit.scale((move * (log(self.least) / masked_max(move, credit.mask).clamp(min=self.floor))).exp())
