"""Wrong antiderivatives of reasoning_gym, told by their slope at a few points: sympy takes up to seconds to say so.

Called in a judge's process only: it reads what a model wrote, as the library's scorer does.
"""

from collections.abc import Mapping
from typing import Any

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
from sympy import Expr, Rational, Symbol, diff, parse_expr

TASKS = ("simple_integration", "intermediate_integration")
POINTS: tuple[Any, ...] = (
    Rational(7, 5),
    Rational(13, 11),
    Rational(9, 4),
)  # above 0, where logarithms and roots are real
STEP: Any = Rational(3, 17)  # between the values of other symbols
DIGITS = 30
APART = 1e-9  # relative: beyond what floats in an answer lose


def refuted(name: str, entry: Mapping[str, Any], answer: str) -> bool:
    """Whether the answer's slope is surely another than the integrand; False leaves the word to the scorer."""
    if name not in TASKS:
        return False
    try:
        variable = entry["metadata"]["variable"]
        x = Symbol(variable)
        slope = diff(parse_expr(answer, local_dict={variable: x, "C": Symbol("C")}), x)
        wanted = parse_expr(entry["metadata"]["integrand"], local_dict={variable: x})
        return any(apart(slope, wanted, x, point) for point in POINTS)
    except Exception:  # whatever a library raises for what a model wrote; the scorer meets it too
        return False


def apart(slope: Expr, wanted: Expr, x: Symbol, point: Any) -> bool:
    """Whether both have a value there, and these differ."""
    others = sorted((slope.free_symbols | wanted.free_symbols) - {x}, key=str)
    values: dict[Any, Any] = {x: point} | {symbol: point + (k + 1) * STEP for k, symbol in enumerate(others)}
    found, known = (complex(side.evalf(DIGITS, subs=values)) for side in (slope, wanted))
    return abs(found - known) > APART * max(1.0, abs(found), abs(known))
