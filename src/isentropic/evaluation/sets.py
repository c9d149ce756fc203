"""Kept answers by set: each problem with all of its answers, or a sentence on what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from isentropic.evaluation import Counts
from isentropic.evaluation.answers import Answered, Asked, read_answers, read_problems


@dataclass(frozen=True)
class Sheet:
    """The problems of one set in their order, and the answers of each in the order of their children."""

    set: str
    problems: list[Asked]
    answers: list[list[Answered]]  # as many of each

    @property
    def k(self) -> int:
        """Answers of each problem, the same for all."""
        return len(self.answers[0])

    @cached_property
    def every(self) -> list[Answered]:
        """All answers, problem by problem."""
        return [one for answers in self.answers for one in answers]

    @cached_property
    def right(self) -> Counts:
        """Right answers of each problem."""
        return torch.tensor([sum(one.right for one in answers) for answers in self.answers])

    @property
    def asked(self) -> Counts:
        """How many answers each problem has: k, for all."""
        return torch.full_like(self.right, self.k)


def sheets(problems: Sequence[Asked], answers: Sequence[Answered]) -> list[Sheet]:
    """In the order of the sets. A problem that a set holds twice counts twice, by the same answers.

    Raises ValueError where there are no problems, or one has fewer answers than another of its set.
    """
    if not problems:
        raise ValueError("there are no problems to score; an evaluation asks at least one")
    kept: dict[tuple[str, str], dict[int, Answered]] = {}
    for one in answers:
        kept.setdefault((one.set, one.problem), {})[one.child] = one
    found: list[Sheet] = []
    for name in dict.fromkeys(one.set for one in problems):
        of_set = sorted((one for one in problems if one.set == name), key=lambda one: one.row)
        given = [kept.get((name, one.problem), {}) for one in of_set]
        most = max(map(len, given))
        lacking = sum(most - len(one) for one in given)
        if lacking or not most:
            raise ValueError(
                f"{name} lacks {lacking or 'all'} of its answers ({len(of_set)} problems, {most} of each);"
                " the same command again goes on with what is missing"
            )
        found.append(Sheet(name, of_set, [[one[child] for child in sorted(one)] for one in given]))
    return found


def read(folder: Path) -> list[Sheet]:
    """Of an evaluation's folder. Raises ValueError for one that is none, or is not finished."""
    try:
        return sheets(read_problems(folder), read_answers(folder))
    except ValueError as error:
        raise ValueError(f"{error} ({folder})" if str(folder) not in str(error) else str(error)) from None
