r"""The kinds of answers: formulas, lists of them in brackets or without, unions, matrices, relations."""

import re
from dataclasses import dataclass
from functools import cached_property

from isentropic.task.kinds.expressions import Node, Unreadable, formula
from isentropic.task.kinds.literals import Number, number

NAME = re.compile(
    r"m?\s?\\angle\s?[A-Z]{1,3}|\(\s?[A-Za-z]\w{0,3}(?:\s?,\s?[A-Za-z]\w{0,3}){1,9}\s?\)|\\?[A-Za-z]+(?:'|_\s?\w|_\s?\{[^{}]{1,20}\})*(?:\s?\([^()=<>]{0,20}\))?|[^\W\d_][^\d=<>+*/^\\()-]{2,60}"
)


@dataclass(frozen=True)
class Formula:
    """A number, an expression or words: what is not made of parts."""

    text: str

    @cached_property
    def number(self) -> Number | None:
        """As a number that is written down, or None."""
        return number(self.text)

    @cached_property
    def node(self) -> Node | None:
        """As a tree, or None where it cannot be read."""
        try:
            return formula(self.text)
        except (Unreadable, ValueError, RecursionError):
            return None


@dataclass(frozen=True)
class Many:
    """Items in brackets of both sides, `\\{` for a set, empty for a list; an interval is two items."""

    items: tuple["Kind", ...]
    brackets: str


@dataclass(frozen=True)
class Union:
    r"""Of sets or intervals, \cup between them."""

    parts: tuple["Kind", ...]


@dataclass(frozen=True)
class Matrix:
    """Cells by row; a column of one is a vector."""

    rows: tuple[tuple["Kind", ...], ...]


@dataclass(frozen=True)
class Relation:
    """Sides with a sign between each two: x = 5, 1 < x <= 2."""

    sides: tuple["Kind", ...]
    signs: tuple[str, ...]
    texts: tuple[str, ...]


Kind = Formula | Many | Union | Matrix | Relation


def squeezed(text: str) -> str:
    """Without spaces, but for those between digits: 4 2 is not 42."""
    return re.sub(r"(?<!\d)\s|\s(?!\d)|[{}]", "", text)
