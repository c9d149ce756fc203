"""Tokens that a rule chose pay for leaving the old policy: the cost of KL-Cov. arXiv:2505.22617"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.penalty import Penalty
from isentropic.batch import Credit, Drive, PerToken, ScoredBatch, TokenStats


@dataclass(frozen=True)
class Anchor(Penalty):
    """credit.kl_weight * |log p - log p_old|: nothing without a credit rule that sets kl_weight.

    At the old policy itself, the kink, its gradient is zero. Tokens that no rule chose may have any log-prob, -inf too.
    """

    reads_kl_weight: ClassVar[bool] = True

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> PerToken:
        charged = credit.mask & (credit.kl_weight != 0)
        return credit.kl_weight * torch.where(charged, now.logp - batch.old_logp, 0).abs()
