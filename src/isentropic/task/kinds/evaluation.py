"""What a formula is worth: exactly where it is rational, else to many digits at the same points; always bounded.

Two formulas are equal if they are at every point where both are real. No solver is asked, so nothing can hang.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any
from zlib import crc32

from mpmath import mp, mpf, workdps  # pyright: ignore[reportMissingTypeStubs]

from isentropic.task.kinds.exact import exact
from isentropic.task.kinds.expressions import Node

Value = Any  # of mpmath, real or complex, which has no types
MAGNITUDE = 1_000_000  # bits before the point
WIDEST_ANGLE = 2_000  # bits of what a sine is taken of
LARGEST_FACTORIAL = 20_000
CONSTANTS = frozenset(["pi", "e", "i", "degree"])
DIGITS, CONSTANT_DIGITS = 40, 200
POINTS = 9


class Undefined(ArithmeticError):
    """Has no value here, or one that is too large to work out."""


def symbols(tree: Node) -> frozenset[str]:
    """Of everything but the constants; what is applied (f of f(x)) is no symbol."""
    if tree.head == "sym":
        return frozenset([tree.name]) - CONSTANTS
    return frozenset[str]().union(*map(symbols, tree.args))


def near(tree: Node, at: Mapping[str, Value]) -> Value:
    """The value at a point, rounded to the digits in force. Raises Undefined."""
    if tree.head == "num":
        return bounded(mpf(tree.value.numerator) / tree.value.denominator)
    if tree.head == "sym":
        return constant(tree.name) if tree.name in CONSTANTS else at[tree.name]
    args = [near(arg, at) for arg in tree.args]
    try:
        return bounded(applied(tree.name, args) if tree.head == "apply" else NEAR[tree.head](tree.name, *args))
    except (ZeroDivisionError, ValueError, OverflowError, TypeError, KeyError, NotImplementedError) as error:
        raise Undefined(str(error)) from error


def bounded(value: Value) -> Value:
    """The value itself. Raises Undefined where it is not finite, or past MAGNITUDE."""
    if not mp.isfinite(value) or (value and mp.mag(value) > MAGNITUDE):
        raise Undefined("too large")
    return value


def constant(name: str) -> Value:
    """By its name, to the digits in force."""
    return {"pi": +mp.pi, "e": +mp.e, "i": mp.j, "degree": mp.pi / 180}[name]


def within(tree: Node, reach: Fraction, middle: Fraction) -> bool:
    """Whether a constant is no further than `reach` from a number; not so for anything else."""
    try:
        with workdps(DIGITS):
            off = abs(near(tree, {}) - mpf(middle.numerator) / middle.denominator)
            return bool(off <= mpf(reach.numerator) / reach.denominator)
    except (Undefined, KeyError):
        return False


def applied(name: str, args: list[Value]) -> Value:
    """Stands for a function that is not known: smooth, and another for each name."""
    draw = Random(crc32(name.encode()))
    made = mpf(draw.uniform(1, 2))
    for arg in args:
        a, b, c = (mpf(draw.uniform(0.3, 1.7)) for _ in range(3))
        made += a * mp.sin(narrow(b * arg + c))
    return made


def narrow(value: Value) -> Value:
    """An angle whose sine takes no more than a moment. Raises Undefined for a wider one."""
    if value and mp.mag(value) > WIDEST_ANGLE:
        raise Undefined("too wide an angle")
    return value


def near_power(_: str, base: Value, exponent: Value) -> Value:
    """Raises Undefined where the result would be past MAGNITUDE."""
    if base and exponent and mp.mag(base) != 0 and (abs(mp.mag(base)) + 1) * abs(exponent) > MAGNITUDE:
        raise Undefined("too large a power")
    if abs(exponent) > MAGNITUDE:
        raise Undefined("too large a power")
    return mp.power(base, exponent)


def near_exp(_: str, value: Value) -> Value:
    """Raises Undefined where the result would be past MAGNITUDE."""
    if abs(value) > MAGNITUDE:
        raise Undefined("too large a power")
    return mp.exp(value)


def near_fact(_: str, value: Value) -> Value:
    """The gamma function of one more. Raises Undefined past LARGEST_FACTORIAL."""
    if abs(value) > LARGEST_FACTORIAL:
        raise Undefined("too large a factorial")
    return mp.gamma(value + 1)


def near_binom(_: str, over: Value, under: Value) -> Value:
    """Of any two numbers. Raises Undefined past LARGEST_FACTORIAL."""
    if max(abs(over), abs(under)) > LARGEST_FACTORIAL:
        raise Undefined("too large a factorial")
    return mp.binomial(over, under)


def near_root(_: str, value: Value, index: Value) -> Value:
    """Real for odd roots of negative numbers. Raises Undefined for an index that is not whole, or past 1,000."""
    if abs(index) > 1_000 or not mp.isint(index):
        raise Undefined("no root")
    if isinstance(value, mpf) and value < 0 and int(index) % 2:
        return -mp.root(-value, int(index))
    return mp.root(value, int(index)) if index != 2 else mp.sqrt(value)


def near_call(name: str, value: Value, base: Value | None = None) -> Value:
    """A function by its name; `base` is that of a logarithm."""
    if name in ("sin", "cos", "tan", "cot", "sec", "csc"):
        narrow(value)
    if name in ("exp", "sinh", "cosh", "tanh"):
        return near_exp("", value) if name == "exp" else CALLS[name](narrow(value))
    if name in ("ln", "log"):
        return mp.log(value) if base is None else mp.log(value) / mp.log(base)
    return CALLS[name](value)


CALLS: dict[str, Callable[..., Value]] = {
    **{name: getattr(mp, name) for name in ("sin", "cos", "tan", "cot", "sec", "csc", "tanh", "floor", "ceil")},
    **{"arcsin": mp.asin, "arccos": mp.acos, "arctan": mp.atan, "Re": mp.re, "Im": mp.im, "arg": mp.arg},
    **{"sinh": lambda value: (near_exp("", value) - near_exp("", -value)) / 2},
    **{"cosh": lambda value: (near_exp("", value) + near_exp("", -value)) / 2},
}
NEAR: dict[str, Callable[..., Value]] = {
    **{"add": lambda _, *terms: mp.fsum(terms), "mul": lambda _, *factors: mp.fprod(factors)},
    **{"neg": lambda _, value: -value, "div": lambda _, top, bottom: top / bottom},
    **{"pow": near_power, "fact": near_fact, "binom": near_binom, "root": near_root, "call": near_call},
    **{"abs": lambda _, value: abs(value)},
    **{"floor": lambda _, value: mp.floor(value), "ceil": lambda _, value: mp.ceil(value)},
}


@cache
def points(names: tuple[str, ...]) -> list[dict[str, Value]]:
    """Mostly small and positive, as problems mean their symbols; the last three with signs."""
    draw, made = Random(20_230_501), list[dict[str, Value]]()
    for index in range(POINTS):
        size = 9.0 if index == 5 else 2.6
        signs = [draw.choice((-1, 1)) if index > 5 else 1 for _ in names]
        made.append({name: mpf(sign * draw.uniform(0.4, size)) for name, sign in zip(names, signs, strict=True)})
    return made


def real(value: Value) -> bool:
    """Whether the imaginary part is no more than rounding."""
    return isinstance(value, mpf) or abs(value.imag) <= abs(value) * mpf(10) ** (-DIGITS // 2)


def close(first: Value, second: Value, digits: int) -> bool:
    """To so many digits of the larger one."""
    return abs(first - second) <= max(abs(first), abs(second)) * mpf(10) ** -digits


def equal(first: Node, second: Node) -> bool:
    """Whether both are worth the same, whatever their symbols are."""
    if first == second:
        return True
    left, right = exact(first), exact(second)
    if left is not None and right is not None:
        return left == right
    names = tuple(sorted(symbols(first) | symbols(second)))
    return at_points(first, second, names) if names else constants(first, second)


def constants(first: Node, second: Node) -> bool:
    """Whether two formulas without symbols are worth the same, to 150 digits; against 0, only where terms cancel."""
    with workdps(CONSTANT_DIGITS):
        try:
            left, right = near(first, {}), near(second, {})
        except Undefined:
            return False
        if exact(first) == 0 or exact(second) == 0:
            return abs(left - right) < mpf(10) ** -150 and (adds(first) or adds(second))
        return close(left, right, 150)


def adds(tree: Node) -> bool:
    """Whether terms can cancel in it."""
    return tree.head == "add" or any(map(adds, tree.args))


def at_points(first: Node, second: Node, names: tuple[str, ...]) -> bool:
    """Points where one is not real count only where nearly all are such: branches of roots differ there."""
    reals, others = list[bool](), list[bool]()
    with workdps(DIGITS):
        for at in points(names):
            try:
                left, right = near(first, at), near(second, at)
            except Undefined:
                continue
            same = close(left, right, 25) or max(abs(left), abs(right)) < mpf(10) ** -30
            (reals if real(left) and real(right) else others).append(same)
            if reals and not reals[-1]:
                return False
    return len(reals) >= 3 or (len(others) >= 3 and all(others))


def ratio_of(first: Node, second: Node) -> float | None:
    """The real constant that the first is of the second, wherever both have a value; None if there is none."""
    names, ratios = tuple(sorted(symbols(first) | symbols(second))), list[Value]()
    with workdps(DIGITS):
        for at in points(names):
            try:
                left, right = near(first, at), near(second, at)
            except Undefined:
                continue
            if not left or not right or not mp.isfinite(left / right):
                return None
            ratios.append(left / right)
            if not close(ratios[-1], ratios[0], 25):
                return None
        return float(mp.re(ratios[0])) if len(ratios) >= 3 and real(ratios[0]) else None
