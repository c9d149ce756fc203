"""Tokens that a rule chose pay for leaving the old policy: the cost of KL-Cov. arXiv:2505.22617"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.penalty import Penalty
from isentropic.batch import Credit, Drive, PerToken, ScoredBatch, TokenStats


@dataclass(frozen=True)
class Anchor(Penalty):
    """credit.kl_weight * |log p - log p_old|: nothing without a credit rule that sets kl_weight.

    At the old policy itself, the kink, its gradient is zero.
    """

    reads_kl_weight: ClassVar[bool] = True

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> PerToken:
        return credit.kl_weight * torch.where(credit.mask, now.logp - batch.old_logp, 0).abs()
