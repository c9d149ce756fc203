"""Milliseconds of a call of the interpreter, in its cage: `python benchmarks/interpreter.py`."""

import argparse
import statistics
import time
from collections.abc import Sequence

from isentropic.tools.cage import Cage, told
from isentropic.tools.interpreter import Interpreter
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
    interpreter(["print(0)"])  # which starts the processes
    print(told(available()))
    print("| program | least, ms | median | p90 |\n| --- | --- | --- | --- |")
    for name, program in PROGRAMS.items():
        taken = sorted(seconds(interpreter, f"{program}\n#{call}") for call in range(given.calls))
        shown = (taken[0], statistics.median(taken), taken[len(taken) * 9 // 10])
        print(f"| {name} | {' | '.join(f'{1000 * one:.1f}' for one in shown)} |")
    interpreter.close()


def seconds(interpreter: Interpreter, program: str) -> float:
    start = time.perf_counter()
    interpreter([program])
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
