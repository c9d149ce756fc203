"""Milliseconds of a call of the interpreter, in its cage: `python benchmarks/interpreter.py`."""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

from isentropic.tools.cage import Cage, told
from isentropic.tools.interpreter import Interpreter, Sessions
from isentropic.tools.probe import available

PROGRAMS = {
    "print": "print(2**10)",
    "numpy": "import numpy\nprint(numpy.arange(10).sum())",
    "sympy": "import sympy\nprint(sympy.factor('x**2 - 1'))",
    "error": "1/0",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200, help="of each program, one after the other")
    given = parser.parse_args(arguments)
    interpreter = Interpreter(1, 5.0, 4.0, 10_000, "last", Cage())
    sessions = Sessions(1, 5.0, 3600.0, 4.0, 10_000, "last", Cage())
    session = sessions.begin()
    interpreter(["print(0)"])  # which starts the processes
    session("print(0)")
    print(told(available()))
    print("| program | least, ms | median | p90 |\n| --- | --- | --- | --- |")
    for name, program in PROGRAMS.items():
        show(name, given.calls, lambda call, program=program: interpreter([f"{program}\n#{call}"]))
    for name, program in PROGRAMS.items():
        show(f"{name}, in a session", given.calls, lambda _, program=program: session(program))
    show("print, the first of a session", given.calls, lambda _: first(sessions))
    interpreter.close()
    sessions.close()


def first(sessions: Sessions) -> None:
    session = sessions.begin()
    session("print(2**10)")
    session.close()


def show(name: str, calls: int, run: Callable[[int], object]) -> None:
    taken = sorted(seconds(run, call) for call in range(calls))
    shown = (taken[0], statistics.median(taken), taken[len(taken) * 9 // 10])
    print(f"| {name} | {' | '.join(f'{1000 * one:.1f}' for one in shown)} |", flush=True)


def seconds(run: Callable[[int], object], call: int) -> float:
    start = time.perf_counter()
    run(call)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
