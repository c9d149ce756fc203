"""math-verify's reading of LaTeX, as far as it takes no second: a tenth for each bracket within another.

It knows no limit of its own but one by signals, and forty brackets within each other take it minutes.
"""

from functools import lru_cache
from typing import Any

from math_verify import parse  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

DEEPEST = 6  # brackets within each other that are read, or as many as the gold has


def depth(text: str) -> int:
    """The most brackets open at once; one that closes nothing counts for nothing."""
    now = most = 0
    for sign in text:
        if sign in "([{":
            now += 1
            most = max(most, now)
        elif sign in ")]}" and now:
            now -= 1
    return most


def is_shallow(text: str, gold: str) -> bool:
    """Whether it is to be read: no deeper than DEEPEST, or than its gold."""
    return depth(text) <= max(DEEPEST, depth(gold))


@lru_cache(maxsize=16)
def boxed(text: str) -> list[Any]:
    """Of a gold, or of an answer that has been found shallow enough; read once however often it is asked for."""
    return parse(rf"\boxed{{{text}}}", parsing_timeout=0)
