"""Any task with a Python interpreter: a turn either has a program, which is run, or the answer. arXiv:2509.02479"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from isentropic.task import Problem, Task, Verdict
from isentropic.task.environment import Environment, OfTask, Reply
from isentropic.tools.cage import STRICT, Cage
from isentropic.tools.interpreter import Interpreter

PROGRAM = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
SAID = "\nCode execution result: {}\n"
RAN = ("ok", "error")  # the program's own endings; others are failures of a call


@dataclass(frozen=True)
class Session:
    """The last complete program of a turn is run, unless the task finds an answer after it."""

    task: Task
    problem: Problem
    interpreter: Interpreter
    shown: int | None  # characters that are read of what a program says; None is all

    def step(self, text: str) -> Reply:
        """Runs the last program of a turn and says what it printed; without one, the turn is the answer, or void."""
        programs = list(PROGRAM.finditer(text))
        rest = text[programs[-1].end() :] if programs else text
        if rest.strip() and (verdict := self.task.verify([self.problem], [rest])[0]).status != "unparseable":
            return Reply("", verdict)
        if not programs:
            return Reply("", Verdict(0.0, False, "void"), void=True)
        (result,) = self.interpreter([programs[-1][1]])
        text = shortened(result.text.strip(), self.shown)
        said = text if result.word in RAN else f"{text}\n{result.word}".strip()
        return Reply(SAID.format(said), calls=1, failed=int(result.word not in RAN))

    def close(self) -> None:
        """Nothing is held open: each program runs in a process of its own."""


@dataclass(frozen=True)
class WithPython(OfTask):
    """References stay with the task's own judges: a program runs in a process that never saw one.

    Raises ValueError for a task of several turns, and for limits that let no program run.
    """

    task: Task  # whose template tells the model of the interpreter
    workers: int  # processes that run programs
    timeout: float  # CPU seconds of a program
    memory: float  # GiB of a program
    output: int  # bytes that it may print; what the model reads of it is up to rollout.turns.observation_tokens
    lines: Literal["all", "last"]  # of a traceback
    shown: int | None  # characters that are read of what a program says: its head and its tail; None is all
    cage: Cage = STRICT  # what this machine must have to hold what a model wrote

    def __post_init__(self) -> None:
        if isinstance(self.task, Environment):
            raise ValueError(f"task.task is {type(self.task).__name__}, which has several turns of its own already")
        for name in ("workers", "timeout", "memory", "output"):
            if not getattr(self, name) > 0:
                raise ValueError(f"task.{name}={getattr(self, name)} lets no program run; it must be above 0")
        if self.shown is not None and self.shown < 2:
            raise ValueError(
                f"task.shown={self.shown} characters have no head and tail; it must be at least 2, or null"
            )

    @cached_property
    def interpreter(self) -> Interpreter:
        """Caged processes, started by the first program."""
        return Interpreter(self.workers, self.timeout, self.memory, self.output, self.lines, self.cage)

    def begin(self, problem: Problem, seed: int) -> Session:
        return Session(self.task, problem, self.interpreter, self.shown)

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        return self.task.verify(problems, texts)

    def notes(self) -> list[str]:
        return self.task.notes()

    def gold(self, problem: Problem) -> str | None:
        return self.task.gold(problem)

    @property
    def verifies(self) -> bool:
        return self.task.verifies

    def markers(self) -> Sequence[str]:
        return self.task.markers()

    def close(self) -> None:
        super().close()
        if "interpreter" in self.__dict__:
            self.interpreter.close()


def shortened(text: str, limit: int | None) -> str:
    """Cut in its middle, as what matters stands at the beginning or at the end."""
    if limit is None or len(text) <= limit:
        return text
    return f"{text[: limit - limit // 2]}...{text[len(text) - limit // 2 :]}"
