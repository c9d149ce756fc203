"""REINFORCE++: the return at each token, against all tokens of the rollout batch, of all prompts. arXiv:2501.03262"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.batch import PerToken, ScoredBatch
from isentropic.reductions import group_centred, masked_max, masked_mean, masked_std


@dataclass(frozen=True)
class ReinforcePlusPlus(AdvantageEstimator):
    """gamma^(tokens still to come) * R, whitened over the tokens of all ranks: unbiased variance, 1e-8 under the root.

    Rewards that are equal everywhere give exactly zero. A group without spread among others that have some does not:
    all right is above 0, and even behind the group's baseline the batch's mean over tokens, rarely zero, is taken
    off. The paper's KL term in the reward is left out; a KL penalty takes its place.
    Raises ValueError for a gamma outside 0 to 1.
    """

    reads_policy: ClassVar[bool] = False

    gamma: float  # discount per token
    group_baseline: bool  # true: the group's mean is taken off first, REINFORCE++-baseline

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"advantage.gamma={self.gamma} is a discount per token and must lie in 0 to 1")

    @property
    def compares(self) -> bool:
        return self.group_baseline

    def __call__(self, batch: ScoredBatch) -> PerToken:
        reward = group_centred(batch.reward, batch.group) if self.group_baseline else batch.reward
        judged = batch.mask.any(-1)
        varies = masked_max(reward, judged) > -masked_max(-reward, judged)
        ahead = batch.mask.sum(-1, keepdim=True) - batch.mask.cumsum(-1)
        discount = self.gamma ** torch.arange(batch.mask.shape[1] + 1, dtype=reward.dtype, device=reward.device)
        returns = reward[:, None] * discount[ahead]
        centred = returns - masked_mean(returns, batch.mask)
        spread = (masked_std(returns, batch.mask, unbiased=True) ** 2 + 1e-8).sqrt()
        return torch.where(batch.mask & varies, centred / spread, 0)
