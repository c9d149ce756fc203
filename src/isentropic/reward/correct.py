"""The verdict of the task itself, partial rewards included."""

from collections.abc import Sequence
from dataclasses import dataclass

from isentropic.reward import Answer, Reward


@dataclass(frozen=True)
class Correct(Reward):
    """Verdict.reward as it is: 0 or 1, or whatever a task pays for a part of an answer."""

    weight: float  # of it in the sum

    def __call__(self, answers: Sequence[Answer]) -> list[float]:
        return [answer.verdict.reward for answer in answers]
