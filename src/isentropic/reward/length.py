"""Length: tokens outside of a range cost, the more the further; DAPO's range is open below. arXiv:2503.14476"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from isentropic.reductions import soft_overlong
from isentropic.reward import Answer, Reward


@dataclass(frozen=True)
class Length(Reward):
    """0 within the range, then a line to -1 at `buffer` tokens outside, and no less.

    DAPO's soft overlong punishment is shortest=0 and longest=max_tokens - buffer; longest and shortest near each other
    make a soft target. Raises ValueError for a range or buffer that is none.
    """

    weight: float  # of it in the sum
    shortest: int  # tokens
    longest: int
    buffer: int  # tokens outside over which the penalty grows

    def __post_init__(self) -> None:
        if not 0 <= self.shortest <= self.longest:
            raise ValueError(f"reward.length.shortest={self.shortest} must be from 0 to longest={self.longest}")
        if self.buffer < 1:
            raise ValueError(f"reward.length.buffer={self.buffer} must be at least 1 token")

    def __call__(self, answers: Sequence[Answer]) -> list[float]:
        length = torch.tensor([len(answer.tokens) for answer in answers])
        above = soft_overlong(length, self.longest + self.buffer, self.buffer)
        below = soft_overlong(-length, self.buffer - self.shortest, self.buffer)
        return (-(above + below)).tolist()
