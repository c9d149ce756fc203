"""Outcome reward: what a verdict is worth, and nothing else; DAPO, eq. 7, gives 1 and -1. arXiv:2503.14476"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from isentropic.batch import RolloutBatch
from isentropic.rollout.curation import Curator


@dataclass(frozen=True)
class Outcome(Curator):
    """Replaces the task's reward, partial ones too. Group-normalised advantages do not see the scale by itself, but a
    penalty added later weighs half as much against 1 and -1 as against 1 and 0: list this curator before those.

    Raises ValueError where right is not worth more than wrong.
    """

    replaces_reward: ClassVar[bool] = True

    right: float
    wrong: float

    def __post_init__(self) -> None:
        if not self.right > self.wrong:
            raise ValueError(f"outcome.right={self.right} must be above outcome.wrong={self.wrong}")

    def __call__(self, batch: RolloutBatch) -> RolloutBatch:
        return replace(batch, reward=torch.full_like(batch.reward, self.wrong).masked_fill(batch.correct, self.right))
