"""What a model wrote, run in a caged child. Imported by the server, with what programs load at once."""

import io
import itertools
import linecache
import math
import os
import struct
import sys
import threading
import traceback
from fractions import Fraction
from typing import Any, NoReturn

import numpy
import sympy

FILE = "<program{}>"  # empty for the first that a process runs, then a number
LENGTH = struct.Struct("=Q")  # of a program, before it
LOADED = (math, itertools, Fraction, numpy, sympy)  # before the fork, so that importing them costs no program anything
WARMED = sympy.factor("x**2 - 1"), sympy.solve("x - 1")  # nor what sympy makes at its first use, 0.2 seconds


def run(program: str, lines: str) -> NoReturn:
    """One program, in a process of its own; the exit code says whether it ended with an error."""
    raise SystemExit(executed(program, lines, {"__name__": "__main__"}, FILE.format("")))


def run_all(end: int, lines: str) -> NoReturn:
    """Program after program from a connection, with the same variables; a byte after each says how it ended.

    What a program has replaced in this process may end it: that costs nobody else anything.
    """
    variables: dict[str, Any] = {"__name__": "__main__"}
    read, write = os.read, os.write
    for number in itertools.count(1):
        size, program = LENGTH.unpack(read(end, LENGTH.size))[0], b""
        while len(program) < size:
            program += read(end, size - len(program))
        file = FILE.format(f" {number}" if number > 1 else "")
        write(end, bytes([executed(program.decode("utf-8", "surrogatepass"), lines, variables, file)]))
    raise AssertionError


def executed(program: str, lines: str, variables: dict[str, Any], file: str) -> int:
    """Prints what the program prints, then a traceback if it ends with one: then, or by an exit with a code, 1, else 0.

    Raises MemoryError, after which nothing can be relied on.
    """
    sys.stdout = sys.stderr = io.TextIOWrapper(
        io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="replace", write_through=True
    )
    sys.stdin = io.StringIO()
    sys.argv = [file]
    before = set(threading.enumerate())  # of earlier programs, which went on without waiting for them
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    try:
        exec(compile(program, file, "exec"), variables)
        for thread in threading.enumerate():
            if not thread.daemon and thread not in before:
                thread.join()
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code)
        return int(bool(error.code))
    except MemoryError:
        print("MemoryError")
        raise
    except BaseException as error:
        print(told(error, lines))
        return 1
    return 0


def told(error: BaseException, lines: str) -> str:
    """Its traceback, of the programs' own frames: ours, and those of libraries, say nothing to who wrote them."""
    said = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = said
    start = FILE.partition("{")[0]
    while part is not None:
        part.stack = traceback.StackSummary.from_list([one for one in part.stack if one.filename.startswith(start)])
        part = part.__cause__ or part.__context__
    if lines == "last":
        return "".join(said.format_exception_only()).strip().rpartition("\n")[2]
    return "".join(said.format()).strip()
