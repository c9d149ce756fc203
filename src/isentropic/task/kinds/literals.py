r"""Numbers that are written down, not worked out: 72, -1,234.50, 2/3, 2\frac{3}{8}, 28\%, 1.6 \times 10^{-19}, 52_8."""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd
from typing import Literal

from isentropic.task.kinds.units import PLAIN, Unit, unit

Shape = Literal["integer", "decimal", "fraction", "mixed", "power of ten"]

WHOLE = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?: \d{3})+(?!\d)|\d+)"
DECIMAL = rf"(?:{WHOLE}(?:\.\d*)?|\.\d+)"
PART = rf"(?:\{{\s?(-?\s?{DECIMAL})\s?\}}|(\d))"
WRAPPED = rf"(?:\(\s?(-?{DECIMAL})\s?\)|\{{\s?(-?{DECIMAL})\s?\}})"
FRACTION = re.compile(
    rf"\\frac\s?{PART}\s?{PART}|({DECIMAL})\s?/\s?(?:(-?{DECIMAL})|{WRAPPED})|{WRAPPED}\s?/\s?(?:({DECIMAL})|{WRAPPED})"
)
TIMES = r"(?:\\times|\\cdot|\*|[xX])"
TEN = re.compile(rf"(?:({DECIMAL})\s?{TIMES}\s?)?10\s?\^\s?(?:\{{\s?([-+]?\s?\d{{1,6}})\s?\}}|([-+]?\d{{1,6}}))")
SHORT = re.compile(rf"({DECIMAL})[eE]([-+]?\d{{1,6}})(?![\w.])")
MIXED = re.compile(rf"(\d{{1,30}})\s?(?:\\frac\s?{PART}\s?{PART}|\s(\d{{1,30}})\s?/\s?(\d{{1,30}}))")
REPEATING = re.compile(r"(\d{0,30})\.(\d{0,30})\\(?:overline|bar|dot)\s?\{(\d{1,30})\}")
PLAIN_DECIMAL = re.compile(DECIMAL)
BASE = re.compile(r"\s?_\s?(?:\{\s?(\d{1,2})\s?\}|(\d))")
PERCENT = re.compile(r"\s?(?:%|percent(?:age points?|s)?(?![a-z])|per cent(?![a-z]))", re.IGNORECASE)
DEGREES = re.compile(r"\s?\^\s?(?:\\circ(?![a-z])|\{\s?\\circ\s?\})")
NEGATIVE = re.compile(r"(?:minus|negative) (?=[\d\\.$])", re.IGNORECASE)
GOES_ON = re.compile(r"\s?(?:\\ldots(?![a-z])|\.\.\.)")  # digits that are not written
UNIT_FRACTION = re.compile(r"\s?\\frac\s?\{\s?([A-Za-z]{1,10})\s?\}\s?\{\s?([A-Za-z]{1,10}(?:\s?\^\s?\d)?)\s?\}")
MONEY = re.compile(r"(?:US|A|C|HK)?([$€£¥₹])\s?|(?:Rs\.?|USD|EUR)\s?(?=\d)")
LARGEST_EXPONENT = 5_000  # of ten, above which a number is not read: it takes as many digits


@dataclass(frozen=True)
class Number:
    """A number as it was written: its exact value, and how."""

    value: Fraction
    shape: Shape
    last: Fraction | None = None  # one unit of the last digit, where it was written as a decimal
    digits: int = 0  # significant ones of a decimal
    percent: bool = False
    base: int | None = None  # of the digits, where it is not ten
    unit: Unit = PLAIN
    reduced: bool = True
    cut: bool = False  # it says that further digits follow

    @property
    def rounded(self) -> bool:
        """Whether it may stand for what was cut off: decimals of two digits or more, but for halves to eighths."""
        if self.last is None or self.digits < 2 or (self.shape == "integer"):
            return False
        return self.shape == "power of ten" or (self.value * 8).denominator != 1


def number(text: str) -> Number | None:
    """The number that a text in normal spelling is, with its unit; None for anything else. Raises nothing."""
    text = text.strip()
    while text.startswith("(") and text.endswith(")") and text.count("(") == 1:
        text = text[1:-1].strip()
    negative, text = signed(text)
    money = MONEY.match(text)
    text = text[money.end() :] if money else text
    again, text = signed(text) if money else (False, text)
    while text.startswith("(") and text.endswith(")") and text.count("(") == 1:
        text = text[1:-1].strip()
    read = start(text)
    if read is None or (negative and again):
        return None
    found, place = read
    found = ending(found, text[place:], money[1] or "$" if money else "")
    if found is None:
        return None
    return replace(found, value=-found.value) if negative or again else found


def signed(text: str) -> tuple[bool, str]:
    """Whether a minus stands before it, and the rest."""
    if word := NEGATIVE.match(text):
        return True, text[word.end() :]
    return (text[:1] == "-", text[1:].lstrip()) if text[:1] in ("-", "+") and text[:1] else (False, text)


def start(text: str) -> tuple[Number, int] | None:
    """The longest literal that a text starts with, and where it ends."""
    for pattern, make in READERS:
        found = pattern.match(text)
        if found and (made := make(found)):
            return made, found.end()
    return None


def ending(found: Number, tail: str, money: str) -> Number | None:
    """What stands after the digits: a base, degrees, percent, or a unit."""
    if base := BASE.match(tail):
        radix = int(base[1] or base[2])
        if found.shape != "integer" or not 2 <= radix <= 36 or tail[base.end() :].strip():
            return None
        return replace(found, base=radix)
    if (further := GOES_ON.match(tail)) and found.shape == "decimal":
        found, tail = replace(found, cut=True), tail[further.end() :]
    tail = UNIT_FRACTION.sub(r" \1/\2", tail, count=1)
    if percent := PERCENT.match(tail):
        rest = unit(tail[percent.end() :])
        hundredth = None if found.last is None else found.last / 100
        made = replace(found, value=found.value / 100, last=hundredth, percent=True)
        return made if rest and not rest[0].powers and rest[1] == 1 else None
    if degrees := DEGREES.match(tail):
        tail = " degree " + tail[degrees.end() :].replace("C", "celsius", 1).replace("F", "fahrenheit", 1)
        tail = tail.removeprefix(" degree ") if "celsius" in tail or "fahrenheit" in tail else tail
    rest = unit(f" {money} {tail}" if money else tail)
    if rest is None:
        return None
    last = None if found.last is None else found.last * rest[1]
    return replace(found, value=found.value * rest[1], last=last, unit=rest[0])


def decimal(text: str) -> Number:
    """A plain number. 27.0 is a whole one."""
    digits = text.replace(",", "").replace(" ", "").rstrip(".") or "0"
    _, point, places = digits.partition(".")
    value = Fraction(digits if not digits.startswith(".") else f"0{digits}")
    if not point or not places.strip("0"):
        return Number(value, "integer", Fraction(1, 10 ** len(places)), len(digits.replace(".", "").lstrip("0")))
    return Number(value, "decimal", Fraction(1, 10 ** len(places)), len(digits.replace(".", "").lstrip("0")))


def plain(found: re.Match[str]) -> Number:
    """An integer or a decimal."""
    return decimal(found[0])


def fraction(found: re.Match[str]) -> Number | None:
    r"""2/3 or \frac{2}{3}; None with nothing under the bar."""
    over, under = (part for part in found.groups() if part is not None)
    (low, top), (down, bottom) = signed(over), signed(under)
    numerator, denominator = decimal(top), decimal(bottom)
    if not denominator.value:
        return None
    whole = numerator.value.denominator == denominator.value.denominator == 1
    reduced = whole and gcd(int(numerator.value), int(denominator.value)) == 1 and denominator.value != 1
    value = numerator.value / denominator.value
    return Number(-value if low != down else value, "fraction", reduced=reduced)


def mixed(found: re.Match[str]) -> Number | None:
    r"""2\frac{3}{8} or 2 3/8; None where the fraction is none below 1."""
    top, bottom = found[2] or found[3] or found[6], found[4] or found[5] or found[7]
    if not (top.isdigit() and bottom.isdigit()) or not 0 < int(top) < int(bottom):
        return None
    return Number(int(found[1]) + Fraction(int(top), int(bottom)), "mixed")


def ten(found: re.Match[str]) -> Number | None:
    r"""1.6 \times 10^{-19} or 10^5."""
    return scientific(found[1], (found[2] or found[3]).replace(" ", ""))


def short(found: re.Match[str]) -> Number | None:
    """Of ten in a computer's notation, 1.6e-19."""
    return scientific(found[1], found[2])


def scientific(mantissa: str | None, exponent: str) -> Number | None:
    """A mantissa, or 1, times a power of ten; None for one past LARGEST_EXPONENT, which would be too long to write."""
    if abs(int(exponent)) > LARGEST_EXPONENT:
        return None
    scale = Fraction(10) ** int(exponent)
    if mantissa is None:
        return Number(scale, "power of ten")
    front = decimal(mantissa)
    return Number(front.value * scale, "power of ten", (front.last or 1) * scale, front.digits)


def repeating(found: re.Match[str]) -> Number:
    r"""What 0.1\overline{6} is, exactly."""
    whole, fixed, period = found[1] or "0", found[2], found[3]
    ones = Fraction(int(period), 10 ** len(period) - 1) / 10 ** len(fixed)
    return Number(int(whole) + Fraction(int(fixed or 0), 10 ** len(fixed)) + ones, "decimal")


READERS = (
    *((REPEATING, repeating), (MIXED, mixed), (FRACTION, fraction), (TEN, ten), (SHORT, short)),
    (PLAIN_DECIMAL, plain),
)
