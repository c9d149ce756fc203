"""STAPO: rare tokens of good answers that were chosen where the policy was sure teach nothing; leave them out.

arXiv:2602.15620. Formula A for v4; C for v1, whose text contradicts itself on the entropy quantile.
"""

from dataclasses import dataclass
from math import log
from typing import Literal, get_args

from isentropic.algorithm.credit import CreditRule
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats
from isentropic.reductions import Interpolation, quantile

Population = Literal["rare", "all"]


@dataclass(frozen=True)
class Stapo(CreditRule):
    """Drops tokens with A > 0, p < probability and H < the quantile of the population's entropies, all strictly.

    v4 takes the quantile over the rare tokens of good answers, a few in ten thousand: here those of the optimizer step
    on all ranks, for within a micro-batch there is often none or one, and nothing is below itself. v1 takes it over all
    tokens. The interpolation is not printed in the paper, and decides where rare tokens are few; where there is none,
    nothing is dropped. p and H are of the policy at the update. The divisor counts the tokens that are kept.
    No code was published. Raises ValueError for a probability or quantile outside 0 to 1 and for unknown names.
    """

    probability: float  # a token is rare below this
    q: float  # share of the population, by low entropy, below which a rare token is dropped
    interpolation: Interpolation
    population: Population  # whose entropies: "rare" tokens of good answers, or "all" tokens

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ValueError(f"credit.stapo.probability={self.probability} must be above 0 and at most 1")
        if not 0 <= self.q <= 1:
            raise ValueError(f"credit.stapo.q={self.q} is a share of tokens and must lie in 0 to 1")
        for name, known in (("interpolation", get_args(Interpolation)), ("population", get_args(Population))):
            if getattr(self, name) not in known:
                raise ValueError(f"credit.stapo.{name}={getattr(self, name)} must be one of {', '.join(known)}")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        rare = credit.mask & (credit.advantages > 0) & (now.logp < log(self.probability))
        of = rare if self.population == "rare" else credit.mask
        return credit.drop(rare & (now.entropy < quantile(now.entropy, of, self.q, self.interpolation)))
