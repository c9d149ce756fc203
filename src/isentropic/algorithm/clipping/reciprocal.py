"""Bounds that are each other's reciprocal, and an upper one that rises with the drive: MAI-Thinking-1.

Microsoft AI 2026, "MAI-Thinking-1: Building a Hill-Climbing Machine". Formula B: as a port of it states the rule.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.clipping import Clipping, PpoBounds, check
from isentropic.batch import Drive, ScoredBatch, TokenStats


@dataclass(frozen=True)
class Reciprocal(Clipping):
    """The ratio may fall to 1 - low and rise to 1 / (1 - low) + room * drive.up, the paper's k.

    So that a token may gain as much as it may lose, in nats, and more where entropy is wanted. Raises ValueError for a
    lower bound of zero, which has no reciprocal, and for negative room.
    """

    follows_drive: ClassVar[bool] = True

    low: float  # the paper's epsilon
    room: float  # of the ratio, that a drive of 1 adds above
    ceiling: float  # the ratio itself where A < 0; .inf turns dual clip off

    def __post_init__(self) -> None:
        check(self.low, torch.inf, self.ceiling)
        if not self.low < 1:
            raise ValueError(f"clipping.low={self.low} must be below 1: the upper bound is 1 / (1 - low)")
        if not self.room >= 0:
            raise ValueError(f"clipping.room={self.room} must not be negative; 0 keeps the upper bound where it is")

    def __call__(self, now: TokenStats, batch: ScoredBatch, drive: Drive) -> PpoBounds:
        return PpoBounds(1 - self.low, 1 / (1 - self.low) + self.room * drive.up, self.ceiling)
