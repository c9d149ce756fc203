"""The laxer checks that papers and frameworks pay by, to compare with their numbers: each may be fooled as theirs is.

`dapo`: verl's math_dapo, after Minerva's normalisation the same text. `minerva`: the same text, or a difference that
sympy simplifies to 0, as in arXiv:2206.14858 and lm-evaluation-harness. `math_verify`: math-verify as verl and TRL do.
"""

from collections.abc import Callable

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
from latex2sympy2_extended import latex2sympy
from math_verify import verify
from sympy import simplify

from isentropic.task.kinds.grammar import boxed, is_shallow
from isentropic.task.kinds.minerva_text import minerva_text


def dapo(gold: str, answer: str) -> bool:
    """verl's math_dapo: the same text after Minerva's normalisation."""
    return minerva_text(gold) == minerva_text(answer)


def minerva(gold: str, answer: str) -> bool:
    """That, or a difference that sympy simplifies to 0."""
    wanted, found = minerva_text(gold), minerva_text(answer)
    if wanted == found:
        return True
    if not is_shallow(found, wanted):
        return False
    try:
        return simplify(latex2sympy(wanted) - latex2sympy(found)) == 0  # pyright: ignore[reportOperatorIssue]
    except Exception:  # whatever its grammar or sympy makes of what a model wrote
        return False


def math_verify(gold: str, answer: str) -> bool:
    """math-verify's verdict, without its own limits of time: the judge's process has them."""
    return is_shallow(answer, gold) and verify(boxed(gold), boxed(answer), timeout_seconds=0)


CHECKS: dict[str, Callable[[str, str], bool]] = {"dapo": dapo, "minerva": minerva, "math_verify": math_verify}
