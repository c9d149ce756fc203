"""Easy problems first: the set grows from its easiest to all of it, by a column of difficulty. arXiv:2504.05520"""

from collections.abc import Sequence
from dataclasses import dataclass

from isentropic.rollout.sampling import Order, ProblemSampler, check_finite, number_in
from isentropic.rollout.sampling.shuffled import place
from isentropic.task import Problem

GOLDEN = 0.6180339887498949  # steps of it spread evenly over what there is, however much that has become


@dataclass
class Curriculum(ProblemSampler):
    """Raises ValueError for a share that is none, or a course of no prompt."""

    column: str  # of difficulty: the larger, the harder
    start: float  # share of the set, its easiest, that is asked from at first
    prompts: int  # asked until the whole set is in play; then it is shuffled

    def __post_init__(self) -> None:
        if not 0 < self.start <= 1:
            raise ValueError(f"rollout.sampling.start={self.start} is a share; it must be above 0 and at most 1")
        if self.prompts < 1:
            raise ValueError(f"rollout.sampling.prompts={self.prompts} must be at least 1")

    def check(self, problems: Sequence[Problem]) -> None:
        check_finite(problems, "curriculum")
        self.easiest_first(problems)

    def easiest_first(self, problems: Sequence[Problem]) -> list[int]:
        """Indices by the column of difficulty; equals in the task's order."""
        difficulty = [number_in(problem, self.column, "rollout.sampling.column") for problem in problems]
        return sorted(range(len(problems)), key=lambda i: (difficulty[i], i))

    def order(self, problems: Sequence[Problem], position: int, size: int, seed: int) -> Order:
        ranked = self.easiest_first(problems)

        def at(turn: int) -> int:
            index = position + turn
            if index >= self.prompts:
                return place(index - self.prompts, len(ranked), seed)
            share = self.start + (1 - self.start) * index / self.prompts
            open_to = max(1, round(share * len(ranked)))
            return ranked[int((seed * GOLDEN + index * GOLDEN) % 1 * open_to)]

        return at
