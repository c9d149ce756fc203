"""Clip_V: drop tokens of A < 0 that would sharpen the policy most, measured by their vocabulary. arXiv:2602.03392

Formula C: the code reads the vocabulary's term from a field that it does not define; from the paper's theorem it is the
mean of p (ln p + H) under the policy.
"""

from dataclasses import dataclass

from isentropic.algorithm.credit import CreditRule
from isentropic.algorithm.random_choice import count
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats
from isentropic.reductions import masked_std, top_fraction


@dataclass(frozen=True)
class ClipV(CreditRule):
    """Drops tokens with A < 0 whose D is above mu standard deviations of D, the largest first, at most a share.

    D = sum_v p_v^2 (ln p_v + H) - p (ln p + H) is minus the sensitivity: how entropy falls as a token is pushed down.
    D is not centred; its (population) deviation is of all tokens of the optimizer step on all ranks. The share is of
    all tokens, at least one of them, equals together. The divisor counts the kept tokens. The code's class has mu 2.0,
    its default arguments 8.5, which is ours; and it drops tokens without advantage too, which have no gradient.
    Raises ValueError for a negative mu and a share outside 0 to 1.
    """

    mu: float  # standard deviations
    most: float  # share of all tokens that may be dropped

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise ValueError(f"credit.clip_v.mu={self.mu} is a number of standard deviations and must not be negative")
        if not 0 <= self.most <= 1:
            raise ValueError(f"credit.clip_v.most={self.most} is a share of tokens and must lie in 0 to 1")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        fall = -now.sensitivity
        spread = masked_std(fall, credit.mask & ~fall.isnan(), unbiased=False)
        beyond = credit.mask & (credit.advantages < 0) & (fall > self.mu * spread) & (spread > 1e-12)
        limit = max(int(self.most * count(credit.mask)), 1)
        return credit.drop(top_fraction(fall, beyond, limit / max(count(beyond), 1)))
