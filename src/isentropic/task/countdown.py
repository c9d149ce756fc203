"""Countdown: combine all numbers with + - * into a target, one checked step after another.

A prompt `3,8,5,2>24:` is answered by `3*8=24;5-2=3;24+3=27` ... if 27 were the target. Every problem is made by working
one answer out at random, so each can be solved, most of them in many ways. The game is that of arXiv:2404.03683.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import get_args

from isentropic.task import Problem, Split, Status, Task, Verdict
from isentropic.task.endless import Endless, check_held_out, seed_of, split_of

OPERATIONS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
NUMBER = "(0|[1-9][0-9]{0,17})"  # bounded, as int() refuses thousands of digits
STEP = re.compile(rf"{NUMBER}([-+*]){NUMBER}={NUMBER}")
DRAWS = 10_000  # more than enough to meet the rarest split; only impossible settings use them up
TRIES = 20


@dataclass(frozen=True)
class Countdown(Task):
    """References are (numbers, target). Raises ValueError for settings that allow no problem of one of the splits."""

    numbers: int  # how many a problem has
    largest: int  # numbers are drawn uniformly from 1 to this
    limit: int  # no step of a made answer leaves 0 to this; what a model writes may
    held_out: float  # share of the multisets that training never sees, whatever the seed: half validation, half test
    seed: int  # of the training problems
    test_seed: int = 0  # of the test and the validation problems

    def __post_init__(self) -> None:
        if self.numbers < 2:
            raise ValueError(f"task.numbers={self.numbers} leaves nothing to combine; it must be at least 2")
        for name, value in (("largest", self.largest), ("limit", self.limit)):
            if value < 1:
                raise ValueError(f"task.{name}={value} allows no number; it must be at least 1")
        check_held_out(self.held_out)
        for split in get_args(Split):
            self.worked(split, 0)

    def problems(self, split: Split) -> Sequence[Problem]:
        return Endless(lambda index: self.worked(split, index)[0])

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        return [judge(problem.reference, text) for problem, text in zip(problems, texts, strict=True)]

    def worked(self, split: Split, index: int) -> tuple[Problem, str]:
        """A problem with the answer it was made from, which is as random as the problem: no solver's style to learn.

        Raises ValueError where the settings allow none.
        """
        draw = Random(f"{seed_of(split, self.seed, self.test_seed)}/{split}/{index}")
        for _ in range(DRAWS):
            numbers = [draw.randint(1, self.largest) for _ in range(self.numbers)]
            if self.split_of(numbers) != split:
                continue
            for _ in range(TRIES):
                steps = attempt(numbers, self.limit, draw)
                if steps:
                    target = int(steps[-1].partition("=")[2])
                    prompt = f"{','.join(map(str, numbers))}>{target}:"
                    return Problem(prompt, (tuple(numbers), target)), ";".join(steps)
        raise ValueError(
            f"task.numbers={self.numbers}, largest={self.largest}, limit={self.limit}, held_out={self.held_out} allow "
            f"no {split} problem; raise largest, limit or the share of the {split} split"
        )

    def split_of(self, numbers: Sequence[int]) -> Split:
        """By multiset, so that no reordering of a training problem is tested; without the seed, so that no model,
        whatever its pretraining was seeded with, has seen a test problem of a later run."""
        return split_of(",".join(map(str, sorted(numbers))), self.held_out)


def attempt(numbers: Sequence[int], limit: int, draw: Random) -> list[str] | None:
    """Random steps that use up the numbers and end above zero; None where they run into a dead end."""
    left: list[int] = list(numbers)
    steps: list[str] = []
    while len(left) > 1:
        for _ in range(TRIES):
            i, j = draw.sample(range(len(left)), 2)
            sign = draw.choice("+-*")
            a, b = left[i], left[j]
            if sign == "-" and a < b:
                a, b = b, a
            result = OPERATIONS[sign](a, b)
            if result <= limit:
                break
        else:
            return None
        left = [x for k, x in enumerate(left) if k not in (i, j)] + [result]
        steps.append(f"{a}{sign}{b}={result}")
    return steps if left[0] >= 1 else None


def judge(reference: tuple[Sequence[int], int], text: str) -> Verdict:
    """1 for an answer whose every step holds and whose last is the target, else 0."""
    status = check(reference, text)
    return Verdict(float(status == "right"), status == "right", status)


def check(reference: tuple[Sequence[int], int], text: str) -> Status:
    """Right if every step uses what is left and is correct, nothing remains, and the last result is the target."""
    steps = [match.groups() for step in text.split(";") if (match := STEP.fullmatch(step))]
    if len(steps) <= text.count(";"):
        return "unparseable"
    numbers, target = reference
    left: list[int] = list(numbers)
    for a, sign, b, result in ((int(a), sign, int(b), int(result)) for a, sign, b, result in steps):
        for operand in (a, b):
            if operand not in left:
                return "wrong"
            left.remove(operand)
        if OPERATIONS[sign](a, b) != result:
            return "wrong"
        left.append(result)
    return "right" if left == [target] else "wrong"
