"""One program that a model wrote, run in a caged child. Imported by the server, with what programs load at once."""

import io
import itertools
import linecache
import math
import sys
import threading
import traceback
from fractions import Fraction
from typing import NoReturn

import numpy
import sympy

FILE = "<program>"
LOADED = (math, itertools, Fraction, numpy, sympy)  # before the fork, so that importing them costs no program anything
WARMED = sympy.factor("x**2 - 1"), sympy.solve("x - 1")  # nor what sympy makes at its first use, 0.2 seconds


def run(program: str, lines: str) -> NoReturn:
    """Prints what the program prints, then a traceback if it ends with one; the exit code says which."""
    sys.stdout = sys.stderr = io.TextIOWrapper(
        io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="replace", write_through=True
    )
    sys.stdin = io.StringIO()
    sys.argv = [FILE]
    try:
        exec(compile(program, FILE, "exec"), {"__name__": "__main__"})
        for thread in threading.enumerate():
            if not (thread.daemon or thread is threading.main_thread()):
                thread.join()
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code)
        raise SystemExit(int(bool(error.code))) from None
    except MemoryError:
        print("MemoryError")
        raise
    except BaseException as error:
        print(told(program, error, lines))
        raise SystemExit(1) from None
    raise SystemExit(0)


def told(program: str, error: BaseException, lines: str) -> str:
    """Its traceback, of the program's own frames: ours, and those of libraries, say nothing to who wrote it."""
    linecache.cache[FILE] = (len(program), None, program.splitlines(keepends=True), FILE)
    said = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = said
    while part is not None:
        part.stack = traceback.StackSummary.from_list([frame for frame in part.stack if frame.filename == FILE])
        part = part.__cause__ or part.__context__
    if lines == "last":
        return "".join(said.format_exception_only()).strip().rpartition("\n")[2]
    return "".join(said.format()).strip()
