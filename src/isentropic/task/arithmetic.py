"""Endless made-up sums: offline, for tests and first runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random
from typing import get_args

from isentropic.task import Problem, Split, Status, Task, Verdict
from isentropic.task.answers import after_marker, whole_integer
from isentropic.task.endless import Endless, check_held_out, seed_of, split_of
from isentropic.task.prompts import check_template, fill

PATTERN = re.compile(r"\d{1,18}\.\.\d{1,18}(?:[-+*]+\d{1,18}\.\.\d{1,18})+")
PART = re.compile(r"([-+*]*)(\d+)\.\.(\d+)")
DRAWS = 10_000  # more than enough to meet the rarest split; only patterns of very few sums use them up


@dataclass(frozen=True)
class Arithmetic(Task):
    """References are integers. Raises ValueError for settings that allow no problem of one of the splits."""

    pattern: str  # ranges with the operators between them: 2..9*2..9+-1..20 makes 3*7+15 and 8*2-1
    template: str  # the prompt, with {question} for the sum
    marker: str  # the rest of the line after the last of these must be an integer; if empty, the text's first line
    held_out: float  # share of the sums that training never sees, whatever the seed: half validation, half test
    seed: int  # of the training problems
    test_seed: int = 0  # of the test and the validation problems

    def __post_init__(self) -> None:
        check_template(self.template)
        check_held_out(self.held_out)
        if not PATTERN.fullmatch(self.pattern):
            raise ValueError(
                f"task.pattern={self.pattern!r} is not ranges joined by some of + - *, such as 1..99+-1..99 or "
                "2..9*2..9+-1..20"
            )
        for _, low, high in self.parts:
            if low > high:
                raise ValueError(f"task.pattern={self.pattern!r} has the empty range {low}..{high}; try {high}..{low}")
        for split in get_args(Split):
            self.problem(split, 0)

    def problems(self, split: Split) -> Sequence[Problem]:
        return Endless(partial(self.problem, split))

    def markers(self) -> list[str]:
        return [self.marker]

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        return [self.judge(problem.reference, text) for problem, text in zip(problems, texts, strict=True)]

    def problem(self, split: Split, index: int) -> Problem:
        """The same for the same split, seed and index, wherever it is asked.

        Raises ValueError where settings allow none.
        """
        draw = Random(f"{seed_of(split, self.seed, self.test_seed)}/{split}/{index}")
        for _ in range(DRAWS):
            signs = [draw.choice(choices) if choices else "" for choices, _, _ in self.parts]
            numbers = [draw.randint(low, high) for _, low, high in self.parts]
            question = "".join(f"{sign}{number}" for sign, number in zip(signs, numbers, strict=True))
            if split_of(question, self.held_out) == split:
                return Problem(fill(self.template, question), value(signs, numbers))
        raise ValueError(
            f"task.pattern={self.pattern!r} and task.held_out={self.held_out} allow no {split} problem; widen a range"
        )

    def judge(self, reference: int, text: str) -> Verdict:
        """Right if the whole answer after the marker is the integer."""
        answer = whole_integer(after_marker(text, self.marker) or "")
        status: Status = "unparseable" if answer is None else "right" if answer == reference else "wrong"
        return Verdict(float(status == "right"), status == "right", status)

    def written(self, answer: str) -> str:
        return f"{self.marker} {answer}"

    def gold(self, problem: Problem) -> str | None:
        return str(problem.reference)

    @cached_property
    def parts(self) -> list[tuple[str, int, int]]:
        """The operators before each range (none before the first), and its two ends."""
        return [(signs, int(low), int(high)) for signs, low, high in PART.findall(self.pattern)]


def value(signs: Sequence[str], numbers: Sequence[int]) -> int:
    """Of signed numbers; `*` binds first."""
    terms = list[int]()
    for sign, number in zip(signs, numbers, strict=True):
        if sign == "*":
            terms[-1] *= number
        else:
            terms.append(-number if sign == "-" else number)
    return sum(terms)
