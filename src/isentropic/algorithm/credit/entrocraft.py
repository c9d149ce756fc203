"""Where entropy leaves its band, only answers that bring it back teach: Entrocraft. arXiv:2604.26326"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from isentropic.algorithm.credit import CreditRule
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats
from isentropic.reductions import on_tokens


@dataclass(frozen=True)
class Entrocraft(CreditRule):
    """A = max(R, 0) while less entropy is asked for, A = min(R, 0) while more is, and the estimator's A otherwise.

    In place of the advantage stands the reward itself, without the group's baseline, so that groups all right or all
    wrong count too. Rewards must be negative for wrong answers: of 0 and 1, min(R, 0) leaves no gradient at all, just
    where entropy is lowest. A part that drops nothing: tokens without advantage stay in the divisor.
    """

    follows_drive: ClassVar[bool] = True
    reads_policy: ClassVar[bool] = False
    needs_negative_rewards: ClassVar[bool] = True

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        if drive.up == drive.down:  # the same on all ranks
            return credit
        reward = batch.reward.clamp(min=0) if drive.down > drive.up else batch.reward.clamp(max=0)
        advantages = on_tokens(reward.to(credit.advantages.dtype), batch.mask)
        return replace(credit, advantages=torch.where(credit.mask, advantages, credit.advantages))
