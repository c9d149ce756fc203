"""KL-Cov: a penalty on leaving the old policy, for tokens of the largest covariance. arXiv:2505.22617"""

from dataclasses import dataclass
from typing import ClassVar

from isentropic.algorithm.credit import CreditRule, covariance
from isentropic.algorithm.random_choice import count, pick_largest
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats


@dataclass(frozen=True)
class KlCov(CreditRule):
    """Sets kl_weight on the max(1, int(share * N)) of the step's N tokens of largest covariance, for penalty/anchor.

    Released code and verl take the largest of each micro-batch, even where none is above 0; here these get none.
    Equal covariances are common, as a certain token's log-prob is exactly 0: lots decide between them, so that the
    number stays. Raises ValueError for a share outside 0 to 1 and for a weight of 0 or below.
    """

    adds_kl: ClassVar[bool] = True
    reads_logp_alone: ClassVar[bool] = True

    share: float  # of tokens
    weight: float  # of |log p - log p_old|

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"credit.kl_cov.share={self.share} is a share of tokens: above 0 and at most 1")
        if not self.weight > 0:
            raise ValueError(f"credit.kl_cov.weight={self.weight} must be above 0; for none, leave kl_cov out")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        number = max(1, int(self.share * count(credit.mask)))
        cov = covariance(credit, now)
        return credit.add_kl(pick_largest(cov, credit.mask & (cov > 0), batch, number), self.weight)
