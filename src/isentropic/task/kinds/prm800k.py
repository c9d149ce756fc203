"""The rule of OpenAI's PRM800K (arXiv:2305.20050), which MathRuler, STARE and JustRL judge by.

Two answers are equal if MATH's spelling makes them the same text, or PRM800K's does, or if their parts differ by 0.
Read in thunlp/JustRL cf444e9, evals/utils.py, and hiyouga/MathRuler. Three things are ours: a difference is worked out
by `evaluation` in place of sympy, LaTeX is put into plain text by the few commands below in place of pylatexenc, and an
answer of more than 3,000 characters, and than twice its gold, is not equal.
"""

import re

from isentropic.task.kinds.evaluation import equal as same_value
from isentropic.task.kinds.expressions import formula
from isentropic.task.kinds.hendrycks import math_text
from isentropic.task.kinds.normal import normal

UNITS = "degree cm centimeter meter mile second minute hour day week month year foot feet inch yard"
UNIT = re.compile("|".join(rf"{unit}(?:es)?s? *(?:\^[0-9]+)?" for unit in UNITS.split()))
WHOLE_TEXT = re.compile(r"\\text\{(.+?)\}")
WORDS = ((" or ", " , "), (" and ", " , "), ("million", "*10^6"), ("billion", "*10^9"), ("trillion", "*10^12"))
FRACTION = re.compile(r"-?[0-9]+.?/0*[1-9][0-9]*.?")
THOUSANDS = re.compile(r"(\d),(\d\d\d)(?=$|\D)")
COMMANDS = ((r"\pi", "pi"), (r"\infty", "inf"), (r"\cup", "U"), (r"\cdot", "*"), (r"\times", "*"), (r"\div", "/"))
INNERMOST = (
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r" \1/\2"),
    (re.compile(r"\\sqrt\s*\{([^{}]*)\}"), r"sqrt(\1)"),
    (re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"(?<=[\^_])\{([^{}]*)\}"), r"\1"),
)
NO_FORMULA = re.compile(r"\^[{(]|\^[0-9]+\^|\^[0-9][0-9]+")  # which sympy might not come back from
LARGEST = 1e300
LONGEST = 3_000


def equal(gold: str, answer: str) -> bool:
    """By text in MATH's or PRM800K's spelling, else part by part."""
    if len(answer) > max(LONGEST, 2 * len(gold)):
        return False
    if math_text(gold) == math_text(answer):
        return True
    wanted, found = prm_text(gold), prm_text(answer)
    if wanted == found:
        return True
    ours, theirs = parts(wanted), parts(found)
    if not found or len(ours) != len(theirs) or (len(ours) > 1 and (wanted[0], wanted[-1]) != (found[0], found[-1])):
        return False
    return all(same(one, other) for one, other in zip(ours, theirs, strict=True))


def prm_text(answer: str) -> str:
    """PRM800K's spelling: no units, no signs of money or percent, no braces, small letters, integers as integers."""
    if whole := WHOLE_TEXT.fullmatch(answer):
        answer = whole[1]
    text = answer.replace(r"\%", "").replace(r"\$", "").replace("$", "").replace("%", "")
    for old, new in WORDS:
        text = text.replace(old, new)
    text = re.sub(r"\^ *\\circ", "", UNIT.sub("", text))
    text = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    text = re.sub(r",\\! *", "", text)
    text = plain(text) if "\\" in text else text
    text = re.sub(r"([0-9]) +([0-9])", r"\1+\2", re.sub(r"- *", "-", text))
    text = re.sub(r"[ {}]", "", text).lower()
    value = number(text)
    return str(round(value)) if value is not None and whole_number(value) else text


def plain(text: str) -> str:
    """LaTeX as text: 1/2, sqrt(3), pi; from the innermost braces on."""
    text = text.replace(r"\left", "").replace(r"\right", "")
    for pattern, new in INNERMOST:
        text = pattern.sub(new, text)
    for _ in range(text.count("{")):
        before = text
        for pattern, new in INNERMOST:
            text = pattern.sub(new, text)
        if text == before:
            break
    for old, new in COMMANDS:
        text = text.replace(old, new)
    return text.strip()


def same(gold: str, answer: str) -> bool:
    """Fractions must be written alike, and an integer is only answered by itself."""
    if FRACTION.fullmatch(gold) and FRACTION.fullmatch(answer):
        return gold == answer
    if is_integer(gold) != is_integer(answer):
        return False
    both = f"({gold})-({answer})"
    letters = {sign for sign in both.replace("sqrt", "").replace("frac", "") if sign.isalpha()}
    if len(letters) > 2 or NO_FORMULA.search(both):
        return False
    try:
        return same_value(formula(normal(gold)), formula(normal(answer)))
    except (ValueError, ArithmeticError):
        return False


def parts(text: str) -> list[str]:
    """Of a tuple or an interval its items; of anything else itself."""
    text = without_thousands(text)
    inside = text[1:-1]
    if len(text) > 2 and text[0] in "()[]" and text[-1] in "()[]" and not set(inside) & set("()[]"):
        return [item.strip() for item in inside.split(",")]
    return [text] if text else []


def without_thousands(text: str) -> str:
    """The text with 1,234,567 as 1234567."""
    while (shorter := THOUSANDS.sub(r"\1\2", text)) != text:
        text = shorter
    return text


def number(text: str) -> float | None:
    """A float below LARGEST, or None."""
    try:
        value = float(without_thousands(text))
    except ValueError:
        return None
    return value if abs(value) < LARGEST else None


def whole_number(value: float) -> bool:
    """To within 1e-7, as in the original."""
    return abs(value - round(value)) <= 1e-7


def is_integer(text: str) -> bool:
    """Whether a text is a whole number."""
    value = number(text)
    return value is not None and whole_number(value)
