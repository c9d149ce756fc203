"""math-verify's word on formulas that are not read here: integrals, sums, limits, other notations.

Only where the gold is such a formula: what is read here is compared here. An answer may not leave to be worked out what
the gold has worked out.
"""

import logging
import re
from typing import Literal

from math_verify import verify  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

from isentropic.task.kinds.grammar import boxed, is_shallow
from isentropic.task.kinds.shapes import Formula, Kind, Relation

logging.getLogger("math_verify").setLevel(logging.CRITICAL)

COMMAND = re.compile(r"\\[A-Za-z]+")
LONGEST = 300  # characters of an answer, as its grammar takes a millisecond for each
PLACES = 30  # after the point, and digits altogether


def asked(target: Kind, gold: str, answer: str) -> Literal["right"] | None:
    """Right or None. Both sides stand in the same delimiters: bare LaTeX is read differently, or not at all."""
    if (
        not unread(target)
        or len(answer) > max(LONGEST, 2 * len(gold))
        or not is_shallow(answer, gold)
        or set(COMMAND.findall(answer)) - set(COMMAND.findall(gold))
    ):
        return None
    wanted, found = boxed(gold), boxed(answer)
    if len(wanted) < 2 or len(found) < 2 or isinstance(wanted[0], str) or isinstance(found[0], str):
        return None
    same = verify(wanted, found, float_rounding=PLACES, numeric_precision=PLACES, strict=True, timeout_seconds=0)
    return "right" if same else None


def unread(kind: Kind) -> bool:
    """A formula, or a side of a relation, with LaTeX in it that has no tree."""
    if isinstance(kind, Relation):
        return any(map(unread, kind.sides))
    return isinstance(kind, Formula) and kind.node is None and kind.number is None and "\\" in kind.text
