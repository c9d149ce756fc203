"""Repetition: the share of n-grams that an answer has written before, as a penalty. arXiv:2502.03373"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from isentropic.reward import Answer, Reward


@dataclass(frozen=True)
class Repetition(Reward):
    """0 where every n-gram of tokens is new, towards -1 where all repeat. Raises ValueError below one token."""

    weight: float  # of it in the sum
    size: int  # tokens of an n-gram; short ones repeat in any text

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"reward.repetition.size={self.size} must be at least 1 token")

    def __call__(self, answers: Sequence[Answer]) -> list[float]:
        return [-repeated(answer.tokens, self.size) for answer in answers]


def repeated(tokens: Sequence[int], size: int) -> float:
    """Share of n-grams, 0 to 1, that stand earlier in the answer; 0 for one shorter than n."""
    count = len(tokens) - size + 1
    if count <= 0:
        return 0.0
    written = array("q", tokens)  # words are told by hashes of 64 bits
    data, step, width = written.tobytes(), written.itemsize, size * written.itemsize
    return 1 - len({data[place : place + width] for place in range(0, count * step, step)}) / count
