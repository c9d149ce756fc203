"""Soft overlong punishment (DAPO, eq. 13): a penalty that grows over the last tokens allowed. arXiv:2503.14476"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from isentropic.batch import Mask, RolloutBatch
from isentropic.reductions import soft_overlong
from isentropic.rollout.curation import Curator


@dataclass(frozen=True)
class Overlong(Curator):
    """Adds 0 up to max_length - buffer tokens, then falls in a line to -1 at max_length, and stays there.

    Raises ValueError for a buffer that is empty or longer than the answer may be.
    """

    charges_length: ClassVar[bool] = True
    charges: ClassVar[bool] = True

    max_length: int  # tokens of a completion
    buffer: int  # tokens before it over which the penalty grows
    count: Literal["chosen", "all"]  # tokens: that the policy chose, or also those that it read between them

    def __post_init__(self) -> None:
        if not 0 < self.buffer <= self.max_length:
            raise ValueError(f"overlong.buffer={self.buffer} must be from 1 to overlong.max_length={self.max_length}")

    def __call__(self, batch: RolloutBatch) -> RolloutBatch:
        lengths = batch.mask.sum(-1) if self.count == "chosen" else spans(batch.mask)
        return replace(batch, reward=batch.reward - soft_overlong(lengths, self.max_length, self.buffer))


def spans(mask: Mask) -> Int[Tensor, " B"]:
    """From the first token that a row's policy chose to its last; 0 where it chose none."""
    places = torch.arange(mask.shape[1], device=mask.device)
    first = torch.where(mask, places, mask.shape[1]).amin(-1)
    return (torch.where(mask, places, -1).amax(-1) - first + 1).clamp(min=0)
