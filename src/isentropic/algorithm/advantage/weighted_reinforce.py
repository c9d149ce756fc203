"""W-REINFORCE, PSR and NSR: right answers get a fixed advantage, wrong ones another. arXiv:2506.01347"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.batch import PerToken, ScoredBatch
from isentropic.reductions import on_tokens


@dataclass(frozen=True)
class WeightedReinforce(AdvantageEstimator):
    """By the verdict, not by the reward: no baseline, no normalisation, so a group all right or all wrong counts too.

    Raises ValueError for negative weights.
    """

    reads_policy: ClassVar[bool] = False

    positive: float  # advantage of a right answer: the paper's lambda
    negative: float  # minus that of a wrong one

    def __post_init__(self) -> None:
        if not (self.positive >= 0 and self.negative >= 0):
            raise ValueError(
                f"advantage.positive={self.positive} and negative={self.negative} are weights and may not be negative"
            )

    @property
    def compares(self) -> bool:
        return False

    def __call__(self, batch: ScoredBatch) -> PerToken:
        advantages = torch.full_like(batch.reward, -self.negative).masked_fill(batch.correct, self.positive)
        return on_tokens(advantages, batch.mask)
