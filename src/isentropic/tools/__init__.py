"""Where does what a model wrote run, and what may it do there?

A fork server loads what judges or programs need, and forks for each of them; the child shuts itself into a cage before
it sees a word that a model wrote. A pool hands calls to several such servers.
"""

from dataclasses import dataclass
from typing import Literal, get_args

# `killed`: by somebody else, so that one more try is fair; `refused`: a system call of another kind of machine
Word = Literal["ok", "error", "timeout", "memory", "output", "refused", "crash", "killed"]
WORDS: tuple[Word, ...] = get_args(Word)


@dataclass(frozen=True)
class Limits:
    """Of one call. CPU time is what counts, so that no result depends on what else the machine does."""

    cpu: float  # seconds
    wall: float  # seconds, for what sleeps
    memory: float  # GiB of address space
    output: int  # bytes


@dataclass(frozen=True)
class Outcome:
    """How a call ended, and what it said."""

    word: Word
    said: bytes
    cpu: float = 0.0  # seconds that it took
    alive: bool = False  # whether the process goes on, with the variables that it has; of consoles alone


WALL = 10  # times the CPU seconds: for what sleeps, or waits on a busy machine


def limits(cpu: float, memory: float, output: int) -> Limits:
    return Limits(cpu, WALL * cpu, memory, output)
