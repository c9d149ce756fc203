"""What reasoning_gym's scorers let pass that is no answer: not-a-number, any text as a boolean, numbers far off, code.

Some scorers evaluate an answer: `integrate(x, x)` would be worked out for the policy, and 0x18 is in no puzzle.

Called in a judge's process only. A repair takes a reward away, and never gives one.
"""

import ast
import math
import re
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
SUM = re.compile(r"[0-9+\-*/()\s]*")
FORMULA = re.compile(r"[\w+\-*/^().,\s]*")
NAME = re.compile(r"[^\W\d]\w*")
_FUNCTIONS = (
    "sin cos tan cot sec csc asin acos atan acot sinh cosh tanh asinh acosh atanh exp log ln sqrt Abs abs erf Si Ci Ei "
    "li pi E I"
)
FUNCTIONS = frozenset(_FUNCTIONS.split())


def repaired(name: str, known: str | None, answer: str, reward: float, partial_credit: bool) -> float:
    """The reward of a scorer, or 0 where the answer is not of the shape of the known one, or only partly right."""
    if not math.isfinite(reward) or (reward < 1 and not partial_credit):
        return 0.0
    if INFINITE.search(answer) and not INFINITE.search(known or ""):
        return 0.0
    if known is not None and not same_shape(known, answer, reward >= 1):
        return 0.0
    checks = [CHECKS.get(name, anything), EXACT.get(name, anything) if reward >= 1 else anything]
    return min(max(reward, 0.0), 1.0) if all(check(known or "", answer) for check in checks) else 0.0


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


def a_sum(known: str, answer: str) -> bool:
    """Numbers with + - * / and brackets: 0x18 and 4! stand in no puzzle."""
    return bool(SUM.fullmatch(answer))


def sums_up(known: str, answer: str) -> bool:
    """The numbers of the known answer, each once, and its value to the last digit: int() makes 24 of 24.9."""
    try:
        wanted, found = (sorted(map(int, DIGITS.findall(text))) for text in (known, answer))
        value = exact(formula(answer)) if wanted == found else None
        return value is not None and value == exact(formula(known))
    except (Unreadable, ValueError, RecursionError):
        return False


def polynomial(known: str, answer: str) -> bool:
    """Of the known one's letters alone: nothing that expands it is called."""
    return bool(FORMULA.fullmatch(answer)) and set(NAME.findall(answer)) <= set(NAME.findall(known))


def antiderivative(known: str, answer: str) -> bool:
    """Of the known one's letters and of functions; without an integral, even where the known one has some."""
    names = set(NAME.findall(answer))
    return bool(FORMULA.fullmatch(answer)) and names <= {*FUNCTIONS, *NAME.findall(known)} - {"Integral"}


def written_out(known: str, answer: str) -> bool:
    """A list without anything that is called or counted through; what is no list is not evaluated to one."""
    try:
        ast.literal_eval(answer)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return not set("([") & set(answer)
    return True


CHECKS: dict[str, Callable[[str, str], bool]] = {
    **dict.fromkeys(("countdown", "puzzle24"), a_sum),
    "polynomial_multiplication": polynomial,
    **dict.fromkeys(("simple_integration", "intermediate_integration"), antiderivative),
    **dict.fromkeys(("binary_matrix", "n_queens", "spiral_matrix", "string_insertion"), written_out),
}
EXACT: dict[str, Callable[[str, str], bool]] = dict.fromkeys(("countdown", "puzzle24"), sums_up)  # at the full reward


def is_answer(name: str, known: str) -> bool:
    """Whether a known answer is one: some of the library's leave an integral to be worked out."""
    return CHECKS.get(name, anything)(known, known)
