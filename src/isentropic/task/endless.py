"""Problems made on demand, and the split each belongs to."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import overload

from isentropic.task import Problem, Split


@dataclass(frozen=True)
class Endless(Sequence[Problem]):
    """sys.maxsize problems, of which `make` builds the one at an index when it is asked for."""

    make: Callable[[int], Problem]

    def __len__(self) -> int:
        return sys.maxsize

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        chosen = range(len(self))[index]
        return self.make(chosen) if isinstance(chosen, int) else [self.make(i) for i in chosen]


def split_of(question: str, held_out: float) -> Split:
    """By the text alone, not by the seed: what one run trains on, no other run tests. Half of what is held out is test,
    the other half validation."""
    place = int.from_bytes(blake2b(question.encode(), digest_size=8).digest()) / 2**64
    return "train" if place >= held_out else "test" if place < held_out / 2 else "validation"


def seed_of(split: Split, seed: int, test_seed: int) -> int:
    """Training problems follow the run's seed; those that a run is judged by are the same for runs of every seed."""
    return seed if split == "train" else test_seed


def check_held_out(share: float) -> None:
    """Raises ValueError for a share that does not lie between 0 and 1."""
    if not 0 < share < 1:
        raise ValueError(f"task.held_out={share} is no share; it must lie between 0 and 1, both excluded")
