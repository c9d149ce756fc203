"""`isentropic train` of a calculator whose results come from caged programs; run by test_turns_killed.py.

With AFTER=folder it kills itself while it answers a second turn, as soon as there is a checkpoint of two rollouts.
"""

import os
import runpy
import signal
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from isentropic.task import Problem
from isentropic.task.calculator import Calculation, Calculator
from isentropic.task.environment import Reply
from isentropic.tools.cage import Cage
from isentropic.tools.interpreter import Session, Sessions

PROGRAM = """
steps = globals().get("steps", []) + [{step!r}]
print(eval(steps[-1]))
"""


@dataclass
class Programmed:
    episode: Calculation
    session: Session
    turns: int = 0

    def step(self, text: str) -> Reply:
        self.turns += 1
        after = os.environ.get("AFTER")
        if after and self.turns == 2 and Path(after, "checkpoints", "rollout_2.ckpt").exists():
            os.write(1, b"killed between turns\n")
            os.kill(os.getpid(), signal.SIGKILL)
        reply = self.episode.step(text)
        if not reply.text:
            return reply
        result = self.session(PROGRAM.format(step=text.rstrip("=")))
        return replace(reply, text=f"{result.text.strip()};", seconds=result.seconds)

    def close(self) -> None:
        self.session.close()


@dataclass(frozen=True)
class Programs(Calculator):
    """Every result is printed by a program, in a process of its episode."""

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(2, 5.0, 20.0, 4.0, 1000, "last", Cage(least=["seccomp"], required=False))

    def begin(self, problem: Problem, seed: int) -> Programmed:
        return Programmed(super().begin(problem, seed), self.sessions.begin())

    def close(self) -> None:
        if "sessions" in self.__dict__:
            self.sessions.close()


if __name__ == "__main__":
    runpy.run_module("isentropic.train", run_name="__main__", alter_sys=True)
