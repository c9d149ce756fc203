"""STAPO's counterfactual: of the rare tokens of good answers, leave out those chosen where the policy was unsure.

arXiv:2602.15620, ablation; what it masks is in its text, the share that it is compared at is ours.
"""

from dataclasses import dataclass
from math import log

from isentropic.algorithm.credit import CreditRule
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats
from isentropic.reductions import Interpolation, quantile


@dataclass(frozen=True)
class StapoHigh(CreditRule):
    """Drops tokens with A > 0, p < probability and H > the 1 - q quantile of their entropies: as many as credit/stapo.

    Raises ValueError for a probability or share outside 0 to 1.
    """

    probability: float  # a token is rare below this
    q: float  # share of the rare tokens, by high entropy, that is dropped
    interpolation: Interpolation

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ValueError(f"credit.stapo_high.probability={self.probability} must be above 0 and at most 1")
        if not 0 <= self.q <= 1:
            raise ValueError(f"credit.stapo_high.q={self.q} is a share of tokens and must lie in 0 to 1")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        rare = credit.mask & (credit.advantages > 0) & (now.logp < log(self.probability))
        return credit.drop(rare & (now.entropy > quantile(now.entropy, rare, 1 - self.q, self.interpolation)))
