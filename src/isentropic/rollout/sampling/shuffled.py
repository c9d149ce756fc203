"""Each problem once an epoch, in an order of its own; as they are made where they have no end."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import maxsize

import torch

from isentropic.rollout.sampling import Order, ProblemSampler
from isentropic.task import Problem


@dataclass
class Shuffled(ProblemSampler):
    """By position alone, so that a resumed run goes on where it was."""

    def order(self, problems: Sequence[Problem], position: int, size: int, seed: int) -> Order:
        return lambda turn: place(position + turn, len(problems), seed)


def place(index: int, size: int, seed: int) -> int:
    """Where the index-th problem asked stands in its set: as made if that is endless, else shuffled anew each epoch."""
    if size == maxsize:
        return index
    return shuffled(size, seed, index // size)[index % size]


@lru_cache(maxsize=2)
def shuffled(size: int, seed: int, epoch: int) -> list[int]:
    """The order of an epoch, the same on every rank; the last two are kept."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch)).tolist()
