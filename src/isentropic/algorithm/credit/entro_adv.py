"""EntroAdv: a bonus to the advantage where the policy was uncertain. arXiv:2506.14758

Formula B: three implementations of the paper's one line of code agree.
"""

from dataclasses import dataclass, replace

import torch

from isentropic.algorithm.credit import CreditRule
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats


@dataclass(frozen=True)
class EntroAdv(CreditRule):
    """A + min(alpha * H, |A| / kappa), with H of the policy at the update, without gradient.

    The bound keeps the sign of every advantage, and tokens without advantage get no bonus. Raises ValueError for a
    negative alpha and for a kappa that would let an advantage change its sign.
    """

    alpha: float  # advantage per nat
    kappa: float  # the bonus is at most |A| / kappa

    def __post_init__(self) -> None:
        if not self.alpha >= 0:
            raise ValueError(f"credit.entro_adv.alpha={self.alpha} is a bonus per nat and must not be negative")
        if not self.kappa > 1:
            raise ValueError(f"credit.entro_adv.kappa={self.kappa} must be above 1, or a bonus changes the sign")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        bonus = torch.minimum(self.alpha * now.entropy, credit.advantages.abs() / self.kappa)
        known = credit.mask & ~now.entropy.isnan()
        return replace(credit, advantages=credit.advantages + torch.where(known, bonus, 0))
