"""Guess a number: the world says whether it is higher or lower, and guesses are as few as halving needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import get_args

from isentropic.task import Problem, Split, Status, Verdict
from isentropic.task.answers import after_marker, whole_integer
from isentropic.task.endless import Endless, check_held_out, seed_of, split_of
from isentropic.task.environment import Environment, Reply
from isentropic.task.prompts import check_template, fill

DRAWS = 10_000  # more than enough to meet the rarest split; only very few ranges use them up


@dataclass
class Guessing:
    """The number that is sought, and how many guesses are left."""

    task: "Guess"
    number: int
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.task.guesses

    def step(self, text: str) -> Reply:
        """Says whether the number is higher or lower than the guess; a turn without one is void.

        The right guess, or the last, ends the episode.
        """
        said = text.partition(self.task.stop)[0] if self.task.stop else text
        guess = whole_integer(after_marker(said, self.task.marker) or "")
        if guess is None:
            return Reply("", Verdict(0.0, False, "void"), void=True)
        self.left -= 1
        if guess == self.number or not self.left:
            status: Status = "right" if guess == self.number else "wrong"
            return Reply("", Verdict(float(status == "right"), status == "right", status))
        return Reply(self.task.higher if self.number > guess else self.task.lower)

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True)
class Guess(Environment):
    """Problems are ranges, and references their ends; the number is drawn by the seed of the episode's world.

    Raises ValueError for settings that allow no problem of one of the splits.
    """

    numbers: int  # in the range of a problem
    largest: int  # that a range may hold
    guesses: int  # of an episode; halving needs log2(numbers + 1), rounded up
    template: str  # the prompt, with {question} for the range, such as 5-67
    marker: str  # the rest of the line after the last of these must be a whole number; if empty, the turn's first line
    higher: str  # what the world says where the number is above the guess
    lower: str
    held_out: float  # share of the ranges that training never sees, whatever the seed: half validation, half test
    seed: int  # of the training problems
    test_seed: int = 0  # of the test and the validation problems
    stop: str | None = None  # a text that ends a turn besides the model's own end

    def __post_init__(self) -> None:
        check_template(self.template)
        check_held_out(self.held_out)
        for name, least in (("numbers", 2), ("guesses", 1), ("largest", self.numbers)):
            if getattr(self, name) < least:
                raise ValueError(f"task.{name}={getattr(self, name)} must be at least {least}")
        if not (self.higher and self.lower) or self.higher == self.lower:
            raise ValueError(
                f"task.higher={self.higher!r} and task.lower={self.lower!r} must be two texts to tell apart"
            )
        for split in get_args(Split):
            self.problem(split, 0)

    def problems(self, split: Split) -> Sequence[Problem]:
        return Endless(partial(self.problem, split))

    def problem(self, split: Split, index: int) -> Problem:
        """A range to guess in; which number it is, each episode draws.

        Raises ValueError where settings allow no range.
        """
        draw = Random(f"{seed_of(split, self.seed, self.test_seed)}/{split}/{index}")
        for _ in range(DRAWS):
            low = draw.randint(1, self.largest - self.numbers + 1)
            question = f"{low}-{low + self.numbers - 1}"
            if split_of(question, self.held_out) == split:
                return Problem(fill(self.template, question), (low, low + self.numbers - 1))
        raise ValueError(
            f"task.numbers={self.numbers}, task.largest={self.largest} and task.held_out={self.held_out} allow no "
            f"{split} problem; raise largest"
        )

    def begin(self, problem: Problem, seed: int) -> Guessing:
        return Guessing(self, Random(seed).randint(*problem.reference))

    def markers(self) -> Sequence[str]:
        return [self.marker]
