"""What reasoning_gym's scorers let pass that is no answer: not-a-number, any text as a boolean, numbers far off.

Called in a judge's process only. A repair takes a reward away, and never gives one.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

from isentropic.task.kinds.exact import exact
from isentropic.task.kinds.expressions import Unreadable, formula
from isentropic.task.kinds.literals import Number, number
from isentropic.task.kinds.normal import normal

INFINITE = re.compile(
    r"(?<![a-z])(?:nan|inf|infinity)(?![a-hk-z])|\d[eE]\+?\d{4,}|\d[eE]\+?(?:3[1-9]|[4-9]\d)\d", re.IGNORECASE
)
BOOLEANS = frozenset(["true", "false"])
LOOSEST = Fraction(1, 100)  # relative, of a decimal; scorers have their own tolerances, all of them tighter
DIGITS = re.compile(r"\d+")


def repaired(name: str, known: str | None, answer: str, reward: float, partial_credit: bool) -> float:
    """The reward of a scorer, or 0 where the answer is not of the shape of the known one, or only partly right."""
    if not math.isfinite(reward) or (reward < 1 and not partial_credit):
        return 0.0
    if INFINITE.search(answer) and not INFINITE.search(known or ""):
        return 0.0
    if known is not None and not same_shape(known, answer, reward >= 1):
        return 0.0
    return min(max(reward, 0.0), 1.0) if CHECKS.get(name, anything)(known or "", answer) else 0.0


def same_shape(known: str, answer: str, full: bool) -> bool:
    """A boolean is met by itself; a number by a number, an integer at the full reward by itself."""
    if known.strip().casefold() in BOOLEANS:
        return answer.strip().casefold() == known.strip().casefold()
    wanted = plain(known)
    if wanted is None:
        return True
    found = plain(answer)
    if found is None:
        return False
    if not full:
        return True
    whole = wanted.value.denominator == 1 and "." not in known
    return abs(found.value - wanted.value) <= (0 if whole else LOOSEST * abs(wanted.value) + Fraction(1, 10**9))


def plain(text: str) -> Number | None:
    """Words such as `12 apples` are judged by the scorer alone."""
    return number(normal(text)) if len(text) < 200 and DIGITS.search(text) and "_" not in text else None


def anything(known: str, answer: str) -> bool:
    """Passes all: of tasks whose scorers need no repair."""
    return True


def makes_24(known: str, answer: str) -> bool:
    """The numbers of the known answer, each once, and 24 to the last digit: 24.9 is not, though int() says so."""
    if Counter(DIGITS.findall(answer)) != Counter(DIGITS.findall(known)):
        return False
    try:
        return exact(formula(answer)) == 24
    except (Unreadable, ValueError, RecursionError):
        return False


CHECKS: dict[str, Callable[[str, str], bool]] = {"puzzle24": makes_24}
