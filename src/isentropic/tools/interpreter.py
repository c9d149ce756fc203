"""A Python interpreter for programs that a model wrote: each runs alone, caged, and says what it printed.

    Interpreter(workers=4, timeout=5.0, memory=4.0, output=10_000, lines="last", cage=Cage())(["print(2**10)"])

gives [Result("1024\\n", "ok")]. A call is a whole program: nothing is kept from one to the next, but in a session.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from isentropic.tools import Limits, Outcome, Word, limits
from isentropic.tools.cage import Cage
from isentropic.tools.console import Console, Consoles
from isentropic.tools.pool import Pool
from isentropic.tools.probe import checked
from isentropic.tools.process import Settings

LONGEST = 1_000_000  # characters of a program
TOO_LONG = Outcome("refused", f"a program has at most {LONGEST} characters".encode())


@dataclass(frozen=True)
class Result:
    text: str  # what the program printed, and its traceback if it ended with one
    word: Word
    seconds: float = field(default=0.0, compare=False)  # of CPU time
    lost: bool = False  # whether variables of this and earlier programs are; of sessions alone


class Interpreter:
    """Raises ValueError for limits that allow nothing, and for a machine whose cage is too weak."""

    def __init__(
        self, workers: int, timeout: float, memory: float, output: int, lines: Literal["all", "last"], cage: Cage
    ) -> None:
        """CPU seconds, GiB and bytes of one program; `lines` of a traceback."""
        positive(workers=workers, timeout=timeout, memory=memory, output=output)
        checked(cage)
        self.lines = lines
        settings = Settings("isentropic.tools.program:run", limits(timeout, memory, output), prints=True)
        self.pool = Pool(settings, workers)

    def __call__(self, programs: Sequence[str]) -> list[Result]:
        outcomes = iter(self.pool([(program, self.lines) for program in programs if len(program) <= LONGEST]))
        return [result(next(outcomes) if len(program) <= LONGEST else TOO_LONG) for program in programs]

    def close(self) -> None:
        self.pool.close()


class Sessions:
    """An interpreter whose programs have the variables of those before them, in a process for each session.

    Raises ValueError for limits that allow nothing, and for a machine whose cage is too weak.
    """

    def __init__(
        self, workers: int, timeout: float, session: float, memory: float, output: int, lines: Literal["all", "last"],
        cage: Cage,
    ) -> None:  # fmt: skip
        """CPU seconds of one program, and of all of a session; GiB of the session's process."""
        positive(workers=workers, timeout=timeout, session=session, memory=memory, output=output)
        checked(cage)
        wall = limits(timeout, memory, output).wall
        self.consoles = Consoles(Limits(session, wall, memory, output), timeout, lines, workers)

    def begin(self) -> "Session":
        return Session(Console(self.consoles))

    def close(self) -> None:
        """Ends all sessions."""
        self.consoles.close()


@dataclass(frozen=True)
class Session:
    console: Console

    def __call__(self, program: str) -> Result:
        """What the next program says. What ends the process costs the variables, and the next begins without."""
        if len(program) > LONGEST:
            return result(TOO_LONG)
        outcome = self.console.ask(program.encode("utf-8", "surrogatepass"))
        return replace(result(outcome), lost=not outcome.alive)

    def close(self) -> None:
        """Ends the process."""
        self.console.close()


def positive(**settings: float) -> None:
    """Raises ValueError for a limit that allows nothing."""
    for name, value in settings.items():
        if value <= 0:
            raise ValueError(f"interpreter.{name}={value} lets no program run; it must be above 0")


def result(outcome: Outcome) -> Result:
    """To a model it is the same who killed its program."""
    word = "crash" if outcome.word == "killed" else outcome.word
    return Result(outcome.said.decode(errors="replace"), word, outcome.cpu)
