"""Digits: the share of an answer's characters that are digits."""

from collections.abc import Sequence
from dataclasses import dataclass

from isentropic.reward import Answer, Reward


@dataclass(frozen=True)
class Digits(Reward):
    """Does not apply to an empty answer."""

    weight: float

    def __call__(self, answers: Sequence[Answer]) -> list[float | None]:
        return [sum(c.isdigit() for c in a.text) / len(a.text) if a.text else None for a in answers]
