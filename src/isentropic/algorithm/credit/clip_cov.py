"""Clip-Cov: a few tokens whose log-prob and advantage vary together get no gradient. arXiv:2505.22617"""

from dataclasses import dataclass

import torch

from isentropic.algorithm.credit import CreditRule, covariance
from isentropic.algorithm.random_choice import count, pick
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats


@dataclass(frozen=True)
class ClipCov(CreditRule):
    """Weight 0 for max(1, int(share * N)) of the step's N tokens, by lot among those with lower < covariance < upper.

    Tokens at which PPO's clip has stopped the gradient anyway are no candidates. The chosen stay in the divisor.
    Released code and verl draw within each micro-batch from the global generator; here lots are drawn from the tokens
    themselves, over all ranks. Raises ValueError for a share outside 0 to 1 and bounds in the wrong order.
    """

    share: float  # of tokens
    lower: float  # of the covariance
    upper: float
    low: float  # PPO's clip range, as in algorithm.clipping: the token's ratio may fall to 1 - low
    high: float  # and rise to 1 + high

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"credit.clip_cov.share={self.share} is a share of tokens: above 0 and at most 1")
        if not self.lower < self.upper:
            raise ValueError(f"credit.clip_cov.lower={self.lower} must be below credit.clip_cov.upper={self.upper}")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        ratio = torch.where(credit.mask, now.logp - batch.old_logp, 0).exp()
        back = ratio.clamp(1 - self.low, 1 + self.high) - ratio
        clipped = credit.advantages * back < 0  # A > 0 above the range, or A < 0 below it
        cov = covariance(credit, now)
        candidates = credit.mask & ~clipped & (cov > self.lower) & (cov < self.upper)
        chosen = pick(candidates, batch, max(1, int(self.share * count(credit.mask))))
        return credit.scale(torch.ones_like(credit.advantages).masked_fill(chosen, 0))
