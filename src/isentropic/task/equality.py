"""Are two mathematical answers equal? Called in a caged process only: it may hang, and takes seconds to import."""

# pyright: reportMissingTypeStubs=false
import logging
import re
from fractions import Fraction

from math_verify import parse, verify  # pyright: ignore[reportUnknownVariableType]
from sympy import Basic, MatrixBase

from isentropic.task import Status

logging.getLogger("math_verify").setLevel(logging.CRITICAL)

NUMBER = re.compile(r"[-+]?(\d{1,200}\.?\d{0,200}|\.\d{1,200})")
TOLERANCE = Fraction(1, 10**6)  # relative, between plain numbers; math-verify's own is six decimals
EXPONENT = re.compile(r"(?<![A-Za-z\d.])(\d+\.?\d*|\.\d+)[eE]([-+]?\d+)(?![A-Za-z\d])")
MONEY = re.compile(r"\\?\$\s*(?=[-+]?[\d.])")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:(?:,|\{,\}|,?\\[!,])\s*\d{3})+(?:\.\d*)?")
DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\[", r"\]"), (r"\(", r"\)"))


def judge(gold: str, answer: str) -> tuple[float, bool, Status]:
    status = compare(clean(gold), clean(answer))
    return float(status == "right"), status == "right", status


def compare(gold: str, answer: str) -> Status:
    """Plain numbers by arithmetic, everything else by math-verify."""
    if gold == answer:
        return "right"
    if NUMBER.fullmatch(gold) and NUMBER.fullmatch(answer):
        wanted, found = Fraction(gold), Fraction(answer)
        return "right" if abs(found - wanted) <= TOLERANCE * abs(wanted) else "wrong"
    target, parsed = read(gold), read(answer)
    if verify(target, parsed, timeout_seconds=0):
        return "right"
    return "unparseable" if all(isinstance(part, str) for part in parsed) else "wrong"


def read(side: str) -> list[Basic | MatrixBase | str]:
    """Both sides in the same delimiters: bare LaTeX is read differently, or not at all. 0: no time limit by signal."""
    return parse(rf"\boxed{{{side}}}", parsing_timeout=0)  # pyright: ignore[reportUnknownVariableType]


def clean(answer: str) -> str:
    """Takes off what says nothing about the value: delimiters, a full stop, a dollar sign, separators of thousands."""
    answer = answer.replace("\u2212", "-").strip().rstrip(".").strip()
    for left, right in DELIMITERS:
        if answer.startswith(left) and answer.endswith(right) and len(answer) >= len(left) + len(right):
            answer = answer[len(left) : -len(right)].strip()
    answer = MONEY.sub("", answer, count=1) if MONEY.match(answer) else answer
    if THOUSANDS.fullmatch(answer):
        return re.sub(r"[^-+\d.]", "", answer)
    return EXPONENT.sub(r"\1 \\times 10^{\2}", answer)


compare("0.5", r"\frac{1}{2}x")  # loads grammar and solvers while the process starts, not in the first answer's time
