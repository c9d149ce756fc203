"""Countdown with a calculator: the model writes `3*8=`, the calculator goes on with `24;`; the last result decides.

With `optional` the model chooses at each step: `3*8=24;` is its own result, and `3*8=?` asks for it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from isentropic.task import Problem, Status, Verdict
from isentropic.task.countdown import NUMBER, OPERATIONS, Countdown
from isentropic.task.environment import Environment, Reply

ASKED = re.compile(rf"{NUMBER}([-+*]){NUMBER}=()")
CHOSEN = re.compile(rf"{NUMBER}([-+*]){NUMBER}=([?]|{NUMBER})")
ASKS = ("", "?")  # in the place of a result


@dataclass
class Calculation:
    """The numbers that are left, and what they are to become."""

    left: list[int]
    target: int
    optional: bool
    result: int | None = field(init=False, default=None)  # the last one

    def step(self, text: str) -> Reply:
        """Works out `a op b=` of numbers that are left; the last result, or a step that cannot be, ends it.

        With `optional`, steps with results of the model's own may stand before it, or in its place.
        """
        pattern, parts = (CHOSEN, text.split(";")) if self.optional else (ASKED, [text])
        steps = [match for part in parts if (match := pattern.fullmatch(part))]
        if len(steps) < len(parts) or any(step[4] in ASKS for step in steps[:-1]):
            return ended("unparseable")
        for step in steps:
            calls = int(step[4] in ASKS)
            if not self.worked(int(step[1]), step[2], int(step[3])):
                return ended("wrong", calls)
            if not calls and self.result != int(step[4]):
                return ended("wrong")
        if len(self.left) > 1:
            return Reply(f"{self.result};", calls=1) if steps[-1][4] in ASKS else ended("wrong")
        return ended("right" if self.result == self.target else "wrong", int(steps[-1][4] in ASKS))

    def worked(self, a: int, sign: str, b: int) -> bool:
        """Whether both numbers were left, and their result is one that steps can use."""
        for operand in (a, b):
            if operand not in self.left:
                return False
            self.left.remove(operand)
        self.result = OPERATIONS[sign](a, b)
        self.left.append(self.result)
        return self.result >= 0

    def close(self) -> None:
        """Nothing is held open."""


def ended(status: Status, calls: int = 0) -> Reply:
    """The last reply, without text."""
    return Reply("", Verdict(float(status == "right"), status == "right", status), calls=calls)


@dataclass(frozen=True)
class Calculator(Countdown, Environment):
    """Problems are those of countdown; there is no chance in the world."""

    optional: bool = False  # whether the model may write results itself, and asks by `=?`; the reward is the same

    @property
    def stop(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What asks for a result."""
        return "?" if self.optional else "="

    def begin(self, problem: Problem, seed: int) -> Calculation:
        numbers, target = problem.reference
        return Calculation(list(numbers), target, self.optional)

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """Of whole transcripts; each result in them must be the calculator's, and the last may be left out."""
        judge = self.chosen if self.optional else self.replayed
        return [judge(problem, text) for problem, text in zip(problems, texts, strict=True)]

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

    def chosen(self, problem: Problem, text: str) -> Verdict:
        """The same where results are the model's own or the calculator's, which are right alike."""
        reply = self.begin(problem, 0).step(re.sub(r"=[?](?=[0-9])", "=", text))
        return reply.verdict or Verdict(0.0, False, "unparseable")


def asking(answer: str, share: float, draw: Random) -> str:
    """A worked answer, so many of whose results are asked for."""
    return re.sub("=", lambda _: "=?" if draw.random() < share else "=", answer)
