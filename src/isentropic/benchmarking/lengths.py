"""Answers of mixed lengths, as real ones are: each has as many tokens as its seed draws from given quantiles."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, cast

from omegaconf import OmegaConf


@dataclass(frozen=True)
class MixedLengths:
    """Tokens of the answer of a seed, so scaled that the longest has `longest`. Raises ValueError for no quantiles."""

    quantiles: tuple[tuple[float, float], ...]  # shares of the answers from 0 to 1, and tokens they do not exceed
    longest: int

    def __post_init__(self) -> None:
        shares, tokens = ([pair[place] for pair in self.quantiles] for place in (0, 1))
        rises = shares == sorted(set(shares)) and tokens == sorted(tokens)
        if not rises or shares[:1] != [0] or shares[-1:] != [1] or tokens[0] <= 0:
            raise ValueError(
                f"quantiles of lengths are {dict(self.quantiles)}; shares rise from 0 to 1, and their tokens with them"
            )

    def __call__(self, seed: int) -> int:
        return self.at(Random(seed).random())

    def at(self, share: float) -> int:
        """Tokens that so many of the answers do not exceed."""
        place = max(1, bisect_left(self.quantiles, (share,)))
        (left, low), (right, high) = self.quantiles[place - 1 : place + 1]
        tokens = low + (high - low) * (share - left) / (right - left)
        return max(1, round(tokens * self.longest / self.quantiles[-1][1]))

    @property
    def mean(self) -> float:
        """Tokens."""
        parts = ((right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(self.quantiles))
        return sum(parts) * self.longest / self.quantiles[-1][1]


def mixed(name: str, table: str, longest: int) -> MixedLengths:
    """Of a name in the file. Raises ValueError for one that is not there."""
    known = cast(Mapping[str, Mapping[Any, Any]], OmegaConf.to_container(OmegaConf.load(table)))
    if name not in known:
        raise ValueError(f"benchmark.lengths={name} is not known; known are {', '.join(known)}, or null for equal ones")
    return MixedLengths(tuple((float(share), float(tokens)) for share, tokens in known[name].items()), longest)
