"""Soft overlong punishment (DAPO, eq. 13): a penalty that grows over the last tokens allowed. arXiv:2503.14476"""

from dataclasses import dataclass, replace
from typing import ClassVar

from isentropic.batch import RolloutBatch
from isentropic.reductions import soft_overlong
from isentropic.rollout.curation import Curator


@dataclass(frozen=True)
class Overlong(Curator):
    """Adds 0 up to max_length - buffer tokens, then falls in a line to -1 at max_length, and stays there.

    Raises ValueError for a buffer that is empty or longer than the answer may be.
    """

    charges_length: ClassVar[bool] = True

    max_length: int  # tokens of a completion
    buffer: int  # tokens before it over which the penalty grows

    def __post_init__(self) -> None:
        if not 0 < self.buffer <= self.max_length:
            raise ValueError(f"overlong.buffer={self.buffer} must be from 1 to overlong.max_length={self.max_length}")

    def __call__(self, batch: RolloutBatch) -> RolloutBatch:
        over = soft_overlong(batch.mask.sum(-1), self.max_length, self.buffer)
        return replace(batch, reward=batch.reward - over)
