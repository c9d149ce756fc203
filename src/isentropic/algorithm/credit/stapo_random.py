"""STAPO's control: of the rare tokens of good answers, leave some out by lot, whatever the entropy. arXiv:2602.15620"""

from dataclasses import dataclass
from math import ceil, log

from isentropic.algorithm.credit import CreditRule
from isentropic.algorithm.random_choice import count, pick
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats


@dataclass(frozen=True)
class StapoRandom(CreditRule):
    """Drops ceil(q (n - 1)) of the n tokens with A > 0 and p < probability: as many as credit/stapo, but for ties.

    Lots are drawn from the tokens themselves, so that ranks, micro-batches and a resumed run draw alike. Raises
    ValueError for a probability or share outside 0 to 1.
    """

    probability: float  # a token is rare below this
    q: float  # share of the rare tokens that is dropped

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ValueError(f"credit.stapo_random.probability={self.probability} must be above 0 and at most 1")
        if not 0 <= self.q <= 1:
            raise ValueError(f"credit.stapo_random.q={self.q} is a share of tokens and must lie in 0 to 1")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        rare = credit.mask & (credit.advantages > 0) & (now.logp < log(self.probability))
        number = ceil(self.q * (count(rare) - 1) - 1e-9)  # of a product that rounding may have raised
        return credit.drop(pick(rare, batch, number)) if number > 0 else credit
