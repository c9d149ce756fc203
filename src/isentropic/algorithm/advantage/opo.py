"""OPO: reward against the group's mean weighted by length, the baseline of least variance. arXiv:2505.23585"""

from dataclasses import dataclass
from typing import ClassVar

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.batch import PerToken, ScoredBatch
from isentropic.reductions import group_centred, group_sum, on_tokens


@dataclass(frozen=True)
class Opo(AdvantageEstimator):
    """R - sum(length * R) / sum(length), as the squared gradient of an answer is taken to grow with its length.

    An answer without peers gets zero, where verl gives it its reward. The paper takes one optimizer step per rollout:
    policy.optimization.mini_batch = rollout.batch_size.
    """

    reads_policy: ClassVar[bool] = False

    def __call__(self, batch: ScoredBatch) -> PerToken:
        length = batch.mask.sum(-1).to(batch.reward.dtype)
        # The baseline of centred rewards moves with them, and is exactly zero where all are equal.
        reward = group_centred(batch.reward, batch.group)
        baseline = group_sum(length * reward, batch.group) / group_sum(length, batch.group).clamp(min=1)
        return on_tokens(reward - baseline, batch.mask)
