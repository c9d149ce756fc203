r"""The rule of Qwen2.5-Math's evaluation (arXiv:2409.12122): its spelling of answers, and when two are equal.

Read in QwenLM/Qwen2.5-Math a45202b, evaluation/parser.py and grader.py. A number within a ten-thousandth is right, and
so is a hundredth or a hundred times it (percent). Ours: formulas are compared by `evaluation` in place of sympy,
numbers in words are not read, units are taken out for every set (theirs leaves them in Minerva's), and an answer of
more than 3,000 characters, and than twice its gold, is not equal.
"""

import re
from math import isclose

from isentropic.task.kinds import evaluation
from isentropic.task.kinds.expressions import Node, formula
from isentropic.task.kinds.hendrycks import braced_fractions, without_name
from isentropic.task.kinds.normal import normal

WORDS = """
    east degree mph kmph ft deg mile monkey prime ratio rd o gm lb tile per dm lt gain ab way west t a men soldier
    pie bc excess st inches noon percent by gal kmh c acre rise th sq mark l toy coin gallon profit minw yr women
    feet am pm hr square are rupee rounds cubic cc mtr s ohm number day hour minute min second man woman sec cube mt
    mp hectare more unit rs kg g month km m cm mm apple liter loss yard pure year increase d less Surface litre
    metre meter inch h
"""
PHRASES = (
    "m sqaure; m east;sq m;q .;profit of rs;p . m;a .;b .;c .;d .;e .;f .;g .;h .;no change;"
    "a . m;π r 2;sq . m;° f;cu cm;sq inch;∏ cm ³;cu . m;cm 2;rs .;pi sq m;s ."
)
UNITS = (*PHRASES.split(";"), *WORDS.split())
UNIT = [re.compile(rf"(^|\W){unit}($|\W)") for unit in (*UNITS, *(f"{unit}s" for unit in UNITS))]
FIRST = (
    *(("\n", ""), (r"\!", ""), ("bmatrix", "pmatrix"), ("tfrac", "frac"), ("dfrac", "frac")),
    *((r"\neq", r"\ne"), (r"\leq", r"\le"), (r"\geq", r"\ge"), (r"\left", ""), (r"\right", "")),
    *((r"\{", "{"), (r"\}", "}")),
)
SIGNS = ("^{\\circ}", "^\\circ", r"\$", "$", r"\(", r"\)")
NAMES = ("x=", "y=", "z=", r"x\in", r"y\in", r"z\in", r"x\to", r"y\to", r"z\to")
CHOICES = "ABCDE"
CLOSE = 1e-4
LONGEST = 3_000


def equal(gold: str, answer: str) -> bool:
    """In Qwen's spelling; the gold's outer dollars are left out."""
    return len(answer) <= max(LONGEST, 2 * len(gold)) and same(qwen_text(answer), qwen_text(gold.strip("$")))


def qwen_text(text: str) -> str:
    """Its spelling: no units, signs of money or percent, names before "=", spaces; fractions and roots with braces."""
    text = text.strip()
    for old, new in FIRST:
        text = text.replace(old, new)
    text = re.sub(r"\\begin\{array\}\{.*?\}", r"\\begin{pmatrix}", text.rstrip("."))
    text = text.replace(r"\end{array}", r"\end{pmatrix}")
    text = re.sub(r"\\text{.*?}$", "", text).strip() or text
    for unit in UNIT * 2:
        text = unit.sub(r"\1\2", text) or text
    for sign in SIGNS:
        text = text.replace(sign, "")
    text = re.sub(r"\\text\{(.*?)\}", r"\1", text)
    for name in NAMES:
        text = text.replace(name, "")
    text = text.replace(r"\emptyset", "{}").replace(r"(-\infty,\infty)", r"\mathbb{R}")
    text = text.replace(r"\%", "").replace("%", "").replace(" .", " 0.").replace("{.", "{0.")
    text = text.replace("infinity", r"\infty")
    text = text if r"\infty" in text else text.replace("inf", r"\infty")
    text = re.sub(r"\\mbox{.*?}", "", text.replace("and", "").replace(r"\mathbf", ""))
    text = text.replace("j", "i") if "j" in text and "i" not in text else text
    text = re.sub(r"(\d+)\.0*$", r"\1", re.sub(r"(\d+)\.0*([^\d])", r"\1\2", text))
    text = without_name(f"0{text}" if text.startswith(".") else text)
    text = braced_fractions(re.sub(r"\\sqrt(\w+)", r"\\sqrt{\1}", text).replace(" ", ""))
    match = re.fullmatch(r"(-?\d+)/(-?\d+)", text)
    return rf"\frac{{{match[1]}}}{{{match[2]}}}" if match else text


def same(answer: str, gold: str) -> bool:
    """Two spelled answers, in the order of the original: text, number, brackets, parts, equation, formula."""
    if answer.lower() == gold.lower() or (gold in CHOICES and gold and choice(answer) == gold):
        return True
    ours, theirs = number(gold), number(answer)
    if ours is not None and theirs is not None:
        return any(isclose(one, theirs, rel_tol=CLOSE) for one in (ours / 100, ours, ours * 100))
    if not answer:
        return False
    if without_brackets(answer, gold) == without_brackets(gold, answer):
        return True
    if by_parts(answer, gold):
        return True
    sides = [one.split("=") for one in (answer, gold)]
    if all(len(one) == 2 for one in sides):
        return same_formula(*(f"({left})-({right})" for left, right in sides), signs=(1, -1))
    for one, other in ((0, 1), (1, 0)):
        if len(sides[one]) == 2 and len(sides[one][0].strip()) <= 2 and len(sides[other]) == 1:
            pair = [answer, gold]
            pair[one] = sides[one][1]
            return same(*pair)
    return same_formula(answer, gold)


def by_parts(answer: str, gold: str) -> bool:
    """Matrices entry by entry, and what stands in brackets of any kind, item by item."""
    if all(one.startswith(r"\begin{pmatrix}") and one.endswith(r"\end{pmatrix}") for one in (answer, gold)):
        rows = [[row.split("&") for row in inside(one).split("\\\\") if row.strip()] for one in (answer, gold)]
        cells = [[cell for row in one for cell in row] for one in rows]
        alike = [len(row) for row in rows[0]] == [len(row) for row in rows[1]]
        return alike and all(same(one.strip(), other.strip()) for one, other in zip(*cells, strict=True))
    if not all(len(one) > 2 and one[0] in "([" and one[-1] in ")]" for one in (answer, gold)):
        return False
    items = [one[1:-1].split(",") for one in (answer, gold)]
    if len(items[0]) != len(items[1]):
        return False
    if len(items[0]) == 1:  # brackets around one thing
        return same_formula(answer, gold)
    return all(same(one.strip(), other.strip()) for one, other in zip(*items, strict=True))


def inside(matrix: str) -> str:
    """What stands between the begin and end of a pmatrix."""
    return matrix.removeprefix(r"\begin{pmatrix}").removesuffix(r"\end{pmatrix}")


def without_brackets(text: str, other: str) -> str:
    """Braces and round brackets never count; square ones do not where the other side has round ones, or none."""
    square = text.startswith("[") and text.endswith("]") and not other.startswith("(")
    return re.sub(r"[\[\]{}()]" if square else r"[{}()]", "", text).lower()


def choice(answer: str) -> str:
    """The last letter from A to E that stands alone."""
    letters = re.findall(r"\b([ABCDE])\b", answer.upper())
    return letters[-1] if letters else answer.strip(" .")


def number(text: str) -> float | None:
    """A float, per cent divided by 100, or None."""
    text = text.replace(",", "")
    share = text.endswith("%")
    try:
        value = float(text.removesuffix("%").removesuffix("\\") if share else text)
    except ValueError:
        return None
    return value / 100 if share else value


def same_formula(answer: str, gold: str, signs: tuple[int, ...] = (1,)) -> bool:
    """The same at every point, or two constants within a ten-thousandth; where it says so, up to the sign."""
    try:
        trees = [formula(normal(one)) for one in (answer, gold)]
        turned = [trees[0] if sign > 0 else formula(normal(f"-({answer})")) for sign in signs]
    except (ValueError, ArithmeticError):
        return False
    return any(evaluation.equal(trees[1], one) or close(trees[1], one) for one in turned)


def close(gold: Node, answer: Node) -> bool:
    """Real values of two constants, to the relative tolerance CLOSE."""
    if evaluation.symbols(gold) or evaluation.symbols(answer):
        return False
    try:
        ours, theirs = (complex(evaluation.near(one, {})) for one in (gold, answer))
    except (ArithmeticError, ValueError, TypeError):
        return False
    return not ours.imag and not theirs.imag and isclose(ours.real, theirs.real, rel_tol=CLOSE)
