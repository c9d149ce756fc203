"""A Python interpreter for programs that a model wrote: each runs alone, caged, and says what it printed.

    Interpreter(workers=4, timeout=5.0, memory=4.0, output=10_000, lines="last", cage=Cage())(["print(2**10)"])

gives [Result("1024\\n", "ok")]. A call is a whole program: nothing is kept from one to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from isentropic.tools import Outcome, Word, limits
from isentropic.tools.cage import Cage
from isentropic.tools.pool import Pool
from isentropic.tools.probe import checked
from isentropic.tools.process import Settings

LONGEST = 1_000_000  # characters of a program
TOO_LONG = Outcome("refused", f"a program has at most {LONGEST} characters".encode())


@dataclass(frozen=True)
class Result:
    text: str  # what the program printed, and its traceback if it ended with one
    word: Word


class Interpreter:
    """Raises ValueError for limits that allow nothing, and for a machine whose cage is too weak."""

    def __init__(
        self, workers: int, timeout: float, memory: float, output: int, lines: Literal["all", "last"], cage: Cage
    ) -> None:
        """CPU seconds, GiB and bytes of one program; `lines` of a traceback."""
        for name, value in (("workers", workers), ("timeout", timeout), ("memory", memory), ("output", output)):
            if value <= 0:
                raise ValueError(f"interpreter.{name}={value} lets no program run; it must be above 0")
        checked(cage)
        self.lines = lines
        settings = Settings("isentropic.tools.program:run", limits(timeout, memory, output), prints=True)
        self.pool = Pool(settings, workers)

    def __call__(self, programs: Sequence[str]) -> list[Result]:
        outcomes = iter(self.pool([(program, self.lines) for program in programs if len(program) <= LONGEST]))
        return [result(next(outcomes) if len(program) <= LONGEST else TOO_LONG) for program in programs]

    def close(self) -> None:
        self.pool.close()


def result(outcome: Outcome) -> Result:
    """To a model it is the same who killed its program."""
    return Result(outcome.said.decode(errors="replace"), "crash" if outcome.word == "killed" else outcome.word)
