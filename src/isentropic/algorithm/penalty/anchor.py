"""Tied tokens pay for every move away from the policy before the update: the cost of KL-Cov. arXiv:2505.22617"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.penalty import Penalty
from isentropic.batch import Credit, Drive, PerToken, ScoredBatch, TokenStats


@dataclass(frozen=True)
class Anchor(Penalty):
    """credit.anchor * |log p - log p_old|: nothing without a credit rule that ties tokens, which also sets the weight.

    At the old policy itself, the kink, its gradient is zero.
    """

    reads_anchor: ClassVar[bool] = True

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> PerToken:
        return credit.anchor * torch.where(credit.mask, now.logp - batch.old_logp, 0).abs()
