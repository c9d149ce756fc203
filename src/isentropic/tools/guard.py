"""A second line where a scorer evaluates an answer: its code may compute, but not reach for the interpreter.

The cage holds what an answer does to others. What it does to its own verdict, in the very process that scores it, only
this stands against: evaluated text may name nothing private, no frame, and no builtin that acts.
"""

import builtins
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

ACTS = {
    "breakpoint", "classmethod", "compile", "copyright", "credits", "delattr", "dir", "eval", "exec", "exit",
    "format_map", "getattr", "globals", "hasattr", "help", "input", "license", "locals", "memoryview", "mro", "object",
    "open", "print", "property", "quit", "setattr", "staticmethod", "super", "type", "vars",
}  # fmt: skip
FRAMES = ("_", "ag_", "co_", "cr_", "f_", "gi_", "tb_")  # how names begin that lead to frames, code, or private parts
TRUSTED = ("collections", "dataclasses", "enum", "functools", "typing")  # they make code of names


def guard() -> None:
    """For the rest of this process's life; call it when all is loaded."""
    trusted = frozenset(getattr(sys.modules.get(name), "__file__", None) for name in TRUSTED)
    find, string = sys._getframe, builtins.str

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "exec" and string(arguments[0].co_filename).startswith("<"):
            code = arguments[0]
            if code.co_filename.startswith("<frozen") or find(1).f_code.co_filename in trusted:
                return
            reached = next((name for name in names(code) if name in ACTS or name.startswith(FRAMES)), None)
            if reached is not None:
                raise PermissionError(f"an answer may not name {reached}")

    sys.addaudithook(hook)


def names(code: CodeType) -> Iterator[str]:
    """All that the code, and what it defines, reads, calls or looks up by name."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names(constant)
