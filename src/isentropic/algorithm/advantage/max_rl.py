"""MaxRL: reward against the group's mean, in units of that mean, which weighs hard problems most. arXiv:2602.02710"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.batch import PerToken, ScoredBatch
from isentropic.reductions import EPS, group_centred, group_mean, on_tokens


@dataclass(frozen=True)
class MaxRl(AdvantageEstimator):
    """(R - mean) / mean, as in prime-rl and SkyRL; zero in a group whose mean is not above zero.

    The gradient is that of the log of the success rate, up to a power of the group's size; so rewards must be 0 where
    nothing was achieved: with 1 and -1, every group that is half wrong or worse teaches nothing.
    """

    reads_policy: ClassVar[bool] = False
    needs_positive_mean: ClassVar[bool] = True

    def __call__(self, batch: ScoredBatch) -> PerToken:
        mean = group_mean(batch.reward, batch.group)
        achieved = mean > EPS * group_mean(batch.reward.abs(), batch.group)  # a sum that cancels leaves its rounding
        relative = group_centred(batch.reward, batch.group) / torch.where(achieved, mean, 1)
        return on_tokens(torch.where(achieved, relative, 0), batch.mask)
