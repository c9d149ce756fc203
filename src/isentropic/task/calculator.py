"""Countdown with a calculator: the model writes `3*8=`, the calculator goes on with `24;`; the last result decides."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from isentropic.task import Problem, Status, Verdict
from isentropic.task.countdown import NUMBER, OPERATIONS, Countdown
from isentropic.task.environment import Environment, Reply

ASKED = re.compile(rf"{NUMBER}([-+*]){NUMBER}=")


@dataclass
class Calculation:
    """The numbers that are left, and what they are to become."""

    left: list[int]
    target: int  # what is to be reached
    result: int | None = field(init=False, default=None)  # the last one

    def step(self, text: str) -> Reply:
        """Works out one `a op b=` of numbers that are left; the last result, or a step that cannot be, ends it."""
        match = ASKED.fullmatch(text)
        if not match:
            return ended("unparseable")
        a, b = int(match[1]), int(match[3])
        for operand in (a, b):
            if operand not in self.left:
                return ended("wrong", calls=1)
            self.left.remove(operand)
        self.result = OPERATIONS[match[2]](a, b)
        if self.result < 0:  # which no step can use
            return ended("wrong", calls=1)
        self.left.append(self.result)
        if len(self.left) > 1:
            return Reply(f"{self.result};", calls=1)
        return ended("right" if self.result == self.target else "wrong", calls=1)

    def close(self) -> None:
        """Nothing is held open."""


def ended(status: Status, calls: int = 0) -> Reply:
    """The last reply, without text."""
    return Reply("", Verdict(float(status == "right"), status == "right", status), calls=calls)


@dataclass(frozen=True)
class Calculator(Countdown, Environment):
    """Problems are those of countdown; there is no chance in the world."""

    stop = "="

    def begin(self, problem: Problem, seed: int) -> Calculation:
        numbers, target = problem.reference
        return Calculation(list(numbers), target)

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """Of whole transcripts; each result in them must be the calculator's, and the last may be left out."""
        return [self.replayed(problem, text) for problem, text in zip(problems, texts, strict=True)]

    def replayed(self, problem: Problem, text: str) -> Verdict:
        """The verdict of a whole transcript with the calculator's results in it; wrong where one is not its own."""
        episode, parts = self.begin(problem, 0), text.split(";")
        for place, part in enumerate(parts):
            asked, equals, result = part.partition("=")
            reply, last = episode.step(asked + equals), place == len(parts) - 1
            if reply.verdict and not reply.verdict.correct:
                return reply.verdict
            if bool(reply.verdict) != last or result not in (str(episode.result), "" if last else None):
                return Verdict(0.0, False, "wrong" if result else "unparseable")
        return Verdict(1.0, True, "right")
