"""Any task with a Python interpreter: a turn either has a program, which is run, or the answer. arXiv:2509.02479"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from isentropic.task import Problem, Task, Verdict
from isentropic.task.environment import Environment, OfTask, Reply
from isentropic.tools.cage import STRICT, Cage
from isentropic.tools.interpreter import Interpreter, Result, Sessions

PROGRAM = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
SAID = "\nCode execution result: {}\n"
RAN = ("ok", "error")  # the program's own endings; others are failures of a call
LOST = "variables of earlier programs are lost"


def nothing() -> None:
    """What ends an episode that holds nothing open."""


@dataclass(frozen=True)
class Programming:
    """The last complete program of a turn is run, unless the task finds an answer after it."""

    task: Task
    problem: Problem
    run: Callable[[str], Result]
    shown: int | None  # characters that are read of what a program says; None is all
    end: Callable[[], None] = field(default=nothing)  # of what an episode's programs keep

    def step(self, text: str) -> Reply:
        """Runs the last program of a turn and says what it printed; without one, the turn is the answer, or void."""
        programs = list(PROGRAM.finditer(text))
        rest = text[programs[-1].end() :] if programs else text
        if rest.strip() and (verdict := self.task.verify([self.problem], [rest])[0]).status != "unparseable":
            return Reply("", verdict)
        if not programs:
            return Reply("", Verdict(0.0, False, "void"), void=True)
        result = self.run(programs[-1][1])
        ran = result.word in RAN
        notes = "; ".join([*([] if ran else [result.word]), *([LOST] if result.lost else [])])
        said = f"{shortened(result.text.strip(), self.shown)}\n{notes}".strip()
        return Reply(SAID.format(said), calls=1, failed=int(not ran), seconds=result.seconds)

    def close(self) -> None:
        """Ends the session, if there is one."""
        self.end()


@dataclass(frozen=True)
class WithPython(OfTask):
    """References stay with the task's own judges: a program runs in a process that never saw one.

    Raises ValueError for a task of several turns, and for limits that let no program run.
    """

    task: Task  # whose template tells the model of the interpreter
    workers: int  # processes that run programs
    timeout: float  # CPU seconds of a program
    memory: float  # GiB of a program; with state, of all of an episode
    output: int  # bytes that it may print; what the model reads of it is up to rollout.turns.observation_tokens
    lines: Literal["all", "last"]  # of a traceback
    shown: int | None  # characters that are read of what a program says: its head and its tail; None is all
    state: Literal["none", "episode"]  # whether a program has the variables of those before it in its episode
    episode_timeout: float  # with state: CPU seconds of all programs of an episode
    cage: Cage = STRICT  # what this machine must have to hold what a model wrote

    def __post_init__(self) -> None:
        if isinstance(self.task, Environment):
            raise ValueError(f"task.task is {type(self.task).__name__}, which has several turns of its own already")
        for name in ("workers", "timeout", "memory", "output", "episode_timeout"):
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

    @cached_property
    def sessions(self) -> Sessions:
        """Caged processes, one for each episode that has run a program, forked from one that starts with the first."""
        return Sessions(
            self.workers, self.timeout, self.episode_timeout, self.memory, self.output, self.lines, self.cage
        )

    def begin(self, problem: Problem, seed: int) -> Programming:
        if self.state == "episode":
            session = self.sessions.begin()
            return Programming(self.task, problem, session, self.shown, session.close)
        return Programming(self.task, problem, lambda program: self.interpreter([program])[0], self.shown)

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
        for name in ("interpreter", "sessions"):
            if name in self.__dict__:
                getattr(self, name).close()


def shortened(text: str, limit: int | None) -> str:
    """Cut in its middle, as what matters stands at the beginning or at the end."""
    if limit is None or len(text) <= limit:
        return text
    return f"{text[: limit - limit // 2]}...{text[len(text) - limit // 2 :]}"
