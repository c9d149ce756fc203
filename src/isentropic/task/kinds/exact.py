"""Constants that are rational, worked out exactly, as far as they stay short; nothing is rounded."""

from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial

from isentropic.task.kinds.expressions import Node

BITS = 100_000  # of a number
ALL_BITS = 500_000  # of all that are worked out in a formula: hundreds of 5000! take a second


def exact(tree: Node) -> Fraction | None:
    """The value of a rational constant; None for anything else, for too large a one, and after too much work."""
    return worked(tree, [ALL_BITS])


def worked(tree: Node, left: list[int]) -> Fraction | None:
    """That; `left` is how many bits may still be worked out, whatever part of the tree they are in."""
    if tree.head == "num":
        return tree.value
    if not tree.args or tree.head not in EXACT:
        return None
    values = list[Fraction]()
    for arg in tree.args:
        value = worked(arg, left)
        if value is None:
            return None
        values.append(value)
    if sum(map(bits, values)) > BITS:
        return None
    made = EXACT[tree.head](*values)
    left[0] -= bits(made) if made is not None else 0
    return made if left[0] >= 0 else None


def bits(value: Fraction) -> int:
    """Of both its parts."""
    return value.numerator.bit_length() + value.denominator.bit_length()


def total(*terms: Fraction) -> Fraction:
    """A sum, of no terms 0."""
    return sum(terms, Fraction(0))


def times(*factors: Fraction) -> Fraction:
    """A product, of no factors 1."""
    made = Fraction(1)
    for factor in factors:
        made *= factor
    return made


def ratio(top: Fraction, bottom: Fraction) -> Fraction | None:
    """A quotient; None over 0."""
    return top / bottom if bottom else None


def power(base: Fraction, exponent: Fraction) -> Fraction | None:
    """Of whole exponents; None for 0 to a power that is not positive, or a result past BITS."""
    if exponent.denominator != 1 or (not base and exponent <= 0):
        return None
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and base and size * abs(exponent) > BITS:
        return None
    if abs(base) == 1:
        return base if exponent.numerator % 2 else Fraction(1)
    return base**exponent.numerator if base else Fraction(0)


def fact(value: Fraction) -> Fraction | None:
    """Of whole numbers up to 5,000; None for all else."""
    return Fraction(factorial(value.numerator)) if value.denominator == 1 and 0 <= value <= 5_000 else None


def choose(over: Fraction, under: Fraction) -> Fraction | None:
    """Binomial coefficient of whole numbers up to 10,000; None for all else."""
    whole = over.denominator == under.denominator == 1 and under >= 0 and 0 <= over <= 10_000
    return Fraction(comb(int(over), int(under))) if whole else None


def root(value: Fraction, index: Fraction) -> Fraction | None:
    """Of perfect squares and cubes alone."""
    if index not in (2, 3) or (value < 0 and index == 2):
        return None
    parts = [round(abs(part) ** (1 / float(index))) if abs(part) < 10**15 else -1 for part in value.as_integer_ratio()]
    if any(made ** int(index) != abs(part) for made, part in zip(parts, value.as_integer_ratio(), strict=True)):
        return None
    return Fraction(parts[0] if value >= 0 else -parts[0], parts[1])


def negative(value: Fraction) -> Fraction:
    """The value with the other sign."""
    return -value


def absolute(value: Fraction) -> Fraction:
    """The value without its sign."""
    return abs(value)


def floor(value: Fraction) -> Fraction:
    """The next whole number down."""
    return Fraction(value // 1)


def ceiling(value: Fraction) -> Fraction:
    """The next whole number up."""
    return Fraction(-(-value // 1))


EXACT: dict[str, Callable[..., Fraction | None]] = {
    **{"add": total, "mul": times, "div": ratio, "pow": power, "fact": fact, "binom": choose, "root": root},
    **{"neg": negative, "abs": absolute, "floor": floor, "ceil": ceiling},
}
