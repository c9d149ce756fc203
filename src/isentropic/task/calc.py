"""Any task with a calculator that is called by a line, `calc(3 + 5)`, and answers by the next, `= 8`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from isentropic.task import Problem, Task, Verdict
from isentropic.task.countdown import OPERATIONS
from isentropic.task.environment import Environment, OfTask, Reply

ASKED = re.compile(r"calc\(\s*(-?[0-9]{1,18})\s*([-+*])\s*(-?[0-9]{1,18})\s*\)\s*$")  # bounded, as int() has a limit


@dataclass(frozen=True)
class Lines:
    """A turn that ends in a call is told the result; the first that does not is the answer."""

    task: Task
    problem: Problem

    def step(self, text: str) -> Reply:
        """The result of a call; without one, the task's verdict on this turn."""
        if match := ASKED.search(text):
            return Reply(f"= {OPERATIONS[match[2]](int(match[1]), int(match[3]))}\n", calls=1)
        (verdict,) = self.task.verify([self.problem], [text])
        if "calc(" in text and not verdict.correct:  # no sum of two numbers
            return Reply("", verdict, calls=1, failed=1)
        return Reply("", verdict, void=verdict.status == "unparseable")

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True)
class WithCalculator(OfTask):
    """There is no chance in the world. Raises ValueError for a task of several turns."""

    task: Task  # whose template shows how the calculator is called
    stop: str | None = None  # a text of one token that ends a turn besides the model's own end

    def __post_init__(self) -> None:
        if isinstance(self.task, Environment):
            raise ValueError(f"task.task is {type(self.task).__name__}, which has several turns of its own already")

    def begin(self, problem: Problem, seed: int) -> Lines:
        return Lines(self.task, problem)

    def notes(self) -> list[str]:
        return self.task.notes()

    def markers(self) -> Sequence[str]:
        return self.task.markers()

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        return self.task.verify(problems, texts)
