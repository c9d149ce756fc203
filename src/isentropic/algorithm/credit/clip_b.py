"""Clip_B: drop tokens of A < 0 that would sharpen the policy most, measured by the batch. arXiv:2602.03392"""

from dataclasses import dataclass

from isentropic.algorithm.credit import CreditRule
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats
from isentropic.reductions import masked_mean, masked_std


@dataclass(frozen=True)
class ClipB(CreditRule):
    """Drops tokens with A < 0 whose S = p (ln p + H) is more than mu standard deviations under the mean of all tokens.

    To first order, pushing a token's logit down by e moves the entropy by e S: A < 0 on tokens with low S lowers it.
    Mean and (population) deviation are of the optimizer step on all ranks. The divisor counts the kept tokens. Raises
    ValueError for a negative mu.
    """

    mu: float  # standard deviations

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise ValueError(f"credit.clip_b.mu={self.mu} is a number of standard deviations and must not be negative")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        rise = now.logp.exp() * (now.logp + now.entropy)
        known = credit.mask & ~rise.isnan()
        limit = masked_mean(rise, known) - self.mu * masked_std(rise, known, unbiased=False)
        return credit.drop(credit.mask & (credit.advantages < 0) & (rise < limit))
