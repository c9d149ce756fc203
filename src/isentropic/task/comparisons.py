"""The rules of graders on pairs of a gold and an answer, several at a time. Called in a caged process only.

What is loaded and remembered here, every child of the process finds.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
from math_verify import parse, verify

from isentropic.task.answers import very_last_box
from isentropic.task.kinds import literature, prm800k, qwen_math
from isentropic.task.kinds.grammar import boxed, is_shallow
from isentropic.task.math_judge import compare  # which has warmed it
from isentropic.tools.guard import guard

RULES = ("strict", "math_verify", "minerva", "dapo", "prm800k", "qwen_math", "stare")
LONGEST = 300  # characters that `stare` reads of a text, and of a box, or twice the gold


def ours(strictness: str) -> Callable[[str, str], str]:
    """Our comparison's word, as `task=math` pays by it: right, wrong, unsimplified or unparseable."""
    return lambda gold, answer: compare(gold, answer, strictness)[2]


def lax(check: Callable[[str, str], bool]) -> Callable[[str, str], str]:
    """A paper's yes or no as right or wrong."""
    return lambda gold, answer: "right" if check(gold, answer) else "wrong"


def stare(gold: str, answer: str) -> str:
    """Any of three readings: math-verify on the end of the text, math-verify on its last box, PRM800K's rule on that.

    No more is read than the script reads where a text has no heading: the grammar takes a millisecond a character.
    """
    box, longest = very_last_box(answer), max(LONGEST, 2 * len(gold))
    box = box if box is None or len(box) <= longest else ""
    texts = [one for one in (answer[-longest:], box) if one and is_shallow(one, rf"\boxed{{{gold}}}")]
    readings = [parse(one, parsing_timeout=0) for one in texts]
    if not box and all(len(found) < 2 for found in readings):
        return "unparseable"
    if any(verified(gold, found) for found in readings) or (box and prm800k.equal(gold, box)):
        return "right"
    return "wrong"


def verified(gold: str, found: list[Any]) -> bool:
    """What was read is the gold, letter by letter or by math-verify."""
    if len(found) < 2:
        return False
    return found[1] == gold or verify(boxed(gold), found, timeout_seconds=0)


CHECKS: dict[str, Callable[[str, str], str]] = {
    **{name: ours(name) for name in ("strict", *literature.CHECKS)},
    "prm800k": lax(prm800k.equal),
    "qwen_math": lax(qwen_math.equal),
    "stare": stare,
}


def judge(rule: str, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """A status for each pair. Raises what an answer makes a library raise, for all of them."""
    guard()
    return [CHECKS[rule](gold, answer) for gold, answer in pairs]


for name in RULES:
    with suppress(Exception):
        CHECKS[name](r"\frac{1}{2}", r"so \boxed{\frac{3}{7}+\sqrt{2}}")
