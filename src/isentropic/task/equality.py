"""Are two mathematical answers equal? Called in a judge's process only: it reads what a model wrote.

`grade` finds the answer in a text, `judge` compares one with the gold. docs/equality.md says what is equal, and why.
"""

import re

from isentropic.task import Status
from isentropic.task.answers import after_marker, closed_boxes, final_answer, first_line, last_box
from isentropic.task.kinds import literature
from isentropic.task.kinds.comparison import Outcome, compare
from isentropic.task.kinds.fallback import asked
from isentropic.task.kinds.grammar import depth
from isentropic.task.kinds.literals import number
from isentropic.task.kinds.normal import normal
from isentropic.task.kinds.prose import spoken
from isentropic.task.kinds.shapes import Formula
from isentropic.task.kinds.structure import read
from isentropic.task.kinds.units import measured
from isentropic.task.kinds.words import choices, is_choice

LONGEST, LONGEST_LAX = 3_000, 500  # characters of an answer, or twice its gold; grammars of others are slower
WORD = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{3,}")
MOST_WORDS = 12  # of a gold
DEEPEST, DEEPEST_BOX = 40, 4  # brackets within each other, boxes within each other
BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
APPROXIMATELY = r"\approx"
Scored = tuple[float, bool, Status]


def grade(gold: str, text: str, marker: str, strictness: str) -> Scored:
    """The verdict on a whole text of a model."""
    answer = final_answer(text, marker)
    return scored("unparseable") if answer is None else judge(gold, answer, strictness)


def judge(gold: str, answer: str, strictness: str = "strict") -> Scored:
    """The verdict on an answer; what is still in a box is taken out of it."""
    gold = unboxed(gold)
    longest = LONGEST if strictness == "strict" else LONGEST_LAX
    answer = opened(answer) if len(answer) <= max(longest, 2 * len(gold)) else ""
    if not answer or depth(answer) > max(DEEPEST, depth(gold)):
        return scored("unparseable")
    if strictness == "strict":
        return scored(status(gold, answer))
    return scored("right" if literature.CHECKS[strictness](gold, answer) else "wrong")


def scored(verdict: Status) -> Scored:
    """As a judge gives it: reward, right or not, and the word."""
    return float(verdict == "right"), verdict == "right", verdict


def unboxed(text: str) -> str:
    """The last box of a text that has one, else the text; a box that is not closed is nothing."""
    return (last_box(text) or "") if "\\boxed" in text or "\\fbox" in text else text.strip()


def opened(text: str) -> str:
    r"""An answer without boxes: 5 of \boxed{5}, x = {5} of x = \boxed{5}, and 3 {5} of 3 \boxed{5}, which is not 5."""
    for _ in range(DEEPEST_BOX):
        boxes, _ = closed_boxes(text := text.strip())
        if len(boxes) != 1 or (boxes[0].start, boxes[0].end) != (0, len(text)):
            break
        text = text[slice(*boxes[0].inside)]
    return BOX.sub("", text).strip()


def final_line(answer: str) -> str:
    """What follows #### within a box, as far as its line goes."""
    after = after_marker(answer, "####") if "####" in answer else None
    return first_line(after) or answer if after else answer


def readable(text: str) -> bool:
    """Not what nobody would write a second time: signs alone, an open bracket, a paragraph."""
    balanced = all(sum(map(text.count, left)) == sum(map(text.count, right)) for left, right in (("([", ")]"), "{}"))
    return balanced and any(map(str.isalnum, text)) and len(WORD.findall(text)) <= MOST_WORDS


def status(gold: str, answer: str) -> Status:
    """As it stands; then as a sentence; then, where formulas are not read, as math-verify says."""
    wanted, found = normal(gold), normal(final_line(answer))
    if found.startswith(APPROXIMATELY) and (known := number(wanted)) and known.rounded:
        found = found.removeprefix(APPROXIMATELY).lstrip()
    if not wanted or not found:
        return "unparseable"
    if wanted == found:
        return "right" if readable(wanted) else "unparseable"
    if is_choice(wanted, found) or (choices(wanted) and choices(wanted) == choices(found)):
        return "right"
    target, whole = read(wanted), read(found)
    verdict = compare(target, whole)
    if verdict == "right" or (isinstance(whole, Formula) and whole.number):
        return verdict
    if without_unit(wanted, found):
        return "right"
    said: list[Outcome] = [compare(target, read(one)) for one in spoken(found)]
    if "right" in said:
        return "right"
    return asked(target, wanted, found) or (said[0] if said and verdict == "unparseable" else verdict)


def without_unit(gold: str, answer: str) -> bool:
    """Whether formulas are the same but for the unit behind one of them, or the same unit behind both."""
    (goal, asked_in), (rest, given_in) = measured(gold), measured(answer)
    target, whole = read(goal), read(rest)
    if not (asked_in or given_in) or (asked_in and given_in and asked_in != given_in):
        return False
    if any(isinstance(side, Formula) and side.number for side in (target, whole)):
        return False  # which is compared with its unit
    return compare(target, whole) == "right"


status(r"\int_0^1 x", r"\int_0^2 x")  # loads grammar and solvers while the process starts, not in an answer's time
