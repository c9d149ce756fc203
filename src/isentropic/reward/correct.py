"""The verdict of the task itself, partial rewards included."""

from collections.abc import Sequence
from dataclasses import dataclass

from isentropic.reward import Answer, Reward


@dataclass(frozen=True)
class Correct(Reward):
    weight: float

    def __call__(self, answers: Sequence[Answer]) -> list[float]:
        return [answer.verdict.reward for answer in answers]
