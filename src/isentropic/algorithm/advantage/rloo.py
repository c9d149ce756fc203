"""RLOO: reward against the mean of the other answers, a baseline that is independent of it. arXiv:2402.14740"""

from dataclasses import dataclass
from typing import ClassVar

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.batch import PerToken, ScoredBatch
from isentropic.reductions import group_centred, group_size, on_tokens


@dataclass(frozen=True)
class Rloo(AdvantageEstimator):
    """R - mean of the other n - 1 rewards, which is n / (n - 1) times the distance from the group's mean.

    An answer without peers has no baseline and gets zero; verl's function gives it its reward, its vectorised one zero.
    """

    reads_policy: ClassVar[bool] = False

    def __call__(self, batch: ScoredBatch) -> PerToken:
        size = group_size(batch.group)
        advantage = group_centred(batch.reward, batch.group) * size / (size - 1).clamp(min=1)
        return on_tokens(advantage, batch.mask)
