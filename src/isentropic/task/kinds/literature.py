"""The laxer checks that papers and frameworks pay by, to compare with their numbers: each may be fooled as theirs is.

`dapo`: verl's math_dapo, after Minerva's normalisation the same text. `minerva`: the same text, or a difference that
sympy simplifies to 0, as in arXiv:2206.14858 and lm-evaluation-harness. `math_verify`: math-verify as verl and TRL do.
"""

import re
from collections.abc import Callable

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
from latex2sympy2_extended import latex2sympy
from math_verify import parse, verify
from sympy import simplify

UNITS = (
    *(
        "square",
        "ways",
        "integers",
        "dollars",
        "mph",
        "inches",
        "hours",
        "km",
        "units",
        r"\ldots",
        "sue",
        "points",
        "feet",
    ),
    *("minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students"),
    *(
        "childrentickets",
        "multiples",
        r"\text{s}",
        r"\text{.}",
        "\\text{\ns}",
        r"\text{}^2",
        r"\text{}^3",
        "\\text{\n}",
    ),
    *(r"\text{}", r"\mathrm{th}", r"^\circ", r"^{\circ}", r"\;", r",\!", "{,}", '"', r"\dots"),
)
REPLACED = (
    *(("an ", ""), ("a ", ""), (".$", "$"), (r"\$", ""), (r"\ ", ""), (" ", ""), ("mbox", "text")),
    *((r",\text{and}", ","), (r"\text{and}", ","), (r"\text{m}", r"\text{}"), *((unit, "") for unit in UNITS)),
)
OPENED = (
    (r"([^$]*)(\$)([^$]*)(\$)(.*)", r"$\3$"),
    *((rf"(\\{font}\{{)(.*?)(\}})", r"\2") for font in ("text", "textbf", "overline")),
    (r"(\\boxed\{)(.*)(\})", r"\2"),
    (r"(frac)([^{])(.)", r"frac{\2}{\3}"),
    (r"(sqrt)([^{])", r"sqrt{\2}"),
)


def minerva_text(answer: str) -> str:
    """Minerva's normalisation of a final answer (arXiv:2206.14858, appendix D.1)."""
    answer = answer.split("=")[-1]
    for old, new in REPLACED:
        answer = answer.replace(old, new)
    for pattern, new in OPENED:
        answer = re.sub(pattern, new, answer)
    answer = answer.replace("$", "")
    return (answer.replace(",", "") if answer.replace(",", "").isdigit() else answer).strip()


def dapo(gold: str, answer: str) -> bool:
    return minerva_text(gold) == minerva_text(answer)


def minerva(gold: str, answer: str) -> bool:
    wanted, found = minerva_text(gold), minerva_text(answer)
    if wanted == found:
        return True
    try:
        return simplify(latex2sympy(wanted) - latex2sympy(found)) == 0  # pyright: ignore[reportOperatorIssue]
    except Exception:  # whatever its grammar or sympy makes of what a model wrote
        return False


def math_verify(gold: str, answer: str) -> bool:
    wanted, found = (parse(rf"\boxed{{{side}}}", parsing_timeout=0) for side in (gold, answer))
    return verify(wanted, found, timeout_seconds=0)


CHECKS: dict[str, Callable[[str, str], bool]] = {"dapo": dapo, "minerva": minerva, "math_verify": math_verify}
