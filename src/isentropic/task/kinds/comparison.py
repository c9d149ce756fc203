r"""One question for each kind: numbers exactly, tuples in order, sets in any, equations up to a factor.

The first side is the gold, which says what is asked: where it is a number, only a number answers it.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from isentropic.task.kinds import evaluation
from isentropic.task.kinds.equations import difference, same_solutions
from isentropic.task.kinds.expressions import num
from isentropic.task.kinds.literals import Number
from isentropic.task.kinds.simplicity import worked_out
from isentropic.task.kinds.structure import NAME, Formula, Kind, Many, Matrix, Relation, Union, squeezed
from isentropic.task.kinds.units import changes

Outcome = Literal["right", "unsimplified", "wrong", "unparseable"]

CHOICE = re.compile(
    r"(?:option |choice |Option |Choice )?(?:([A-J])|\(\s?([A-Ja-j])\s?\)|([A-Ja-j])[).:])(?:[).:]*\s(.{0,300}))?"
)
CLOCK = re.compile(r"(\d{1,4}(?:\s?:\s?\d{1,4}){1,3})\s?([ap])?\.?\s?(?:m\.?)?", re.IGNORECASE)
SEVERAL = re.compile(r"\(?[A-J]\)?(?:\s?[,;]?\s?(?:and\s|和)?\s?\(?[A-J]\)?){1,9}")
ALTERNATIVE = re.compile(r"\b(?:or|and|either|not|maybe)\b|[,/&;]\s?\(?[A-J]\b|\([A-J]\)|(?<![A-Za-z])[A-J][).:]\s")
QUOTES = re.compile(r"[\s\"'.,;:!*_`]+")
SHORT_WORDS = frozenset(["yes", "no", "true", "false"])
BRACKETS = {r"\{\}": "{}", r"\langle\rangle": "()"}
UNSOLVED = re.compile(r"\\(?:int|iint|oint|sum|prod|lim|det|gcd|lcm|max|min|pmod|bmod|mod)(?![A-Za-z])|!")


def compare(gold: Kind, answer: Kind) -> Outcome:
    """Right if answer is equal to the gold and, where that is a number, written down as one."""
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        return relations(gold, answer)
    if isinstance(gold, Formula) and isinstance(answer, Formula):
        return formulas(gold, answer)
    if isinstance(gold, Matrix) and isinstance(answer, Matrix):
        if [len(row) for row in gold.rows] != [len(row) for row in answer.rows]:
            return "wrong"
        return together(
            [
                compare(a, b)
                for ours, theirs in zip(gold.rows, answer.rows, strict=True)
                for a, b in zip(ours, theirs, strict=True)
            ]
        )
    if isinstance(gold, Union) and isinstance(answer, Union):
        return unordered(gold.parts, answer.parts)
    return many(gold, answer)


def many(gold: Kind, answer: Kind) -> Outcome:
    """Lists and sets in any order, one of them possibly without its braces; anything else in brackets in its own."""
    ours, theirs = brackets(gold), brackets(answer)
    wanted = gold.items if isinstance(gold, Many) else (gold,)
    found = answer.items if isinstance(answer, Many) else (answer,)
    if "{}" in (ours, theirs) and {ours, theirs} <= {"{}", "", None}:
        return unordered(distinct(wanted), distinct(found))
    if ours is None or theirs is None or ours != theirs:
        return "wrong"
    if ours == "" and not any(isinstance(item, Formula) and r"\ldots" in item.text for item in wanted):
        return unordered(wanted, found)
    if len(wanted) != len(found):
        return "wrong"
    return together([compare(a, b) for a, b in zip(wanted, found, strict=True)])


def brackets(kind: Kind) -> str | None:
    """The pair around a list, and of those that mean the same the first; None of what is no list."""
    return BRACKETS.get(kind.brackets, kind.brackets) if isinstance(kind, Many) else None


def distinct(items: Sequence[Kind]) -> tuple[Kind, ...]:
    """Items of a set, each once, in the order of their first."""
    kept = list[Kind]()
    for item in items:
        if not any(compare(other, item) == "right" for other in kept):
            kept.append(item)
    return tuple(kept)


def unordered(wanted: Sequence[Kind], found: Sequence[Kind]) -> Outcome:
    """As many items, each of them equal to another of the other side; the best match decides."""
    if len(wanted) != len(found):
        return "wrong"
    left, statuses = list(found), list[Outcome]()
    for item in wanted:
        first = compare(item, left[0])
        judged: list[Outcome] = [first] if first == "right" else [compare(item, other) for other in left]
        best = min(range(len(judged)), key=[ORDER.index(status) for status in judged].__getitem__)
        statuses.append(judged[best])
        if judged[best] not in ("right", "unsimplified"):
            return "wrong"
        del left[best]
    return together(statuses)


ORDER: list[Outcome] = ["right", "unsimplified", "wrong", "unparseable"]


def together(statuses: Sequence[Outcome]) -> Outcome:
    """The worst of parts; of one that is not read among others, wrong."""
    worst = ORDER[max(map(ORDER.index, statuses), default=0)]
    return "wrong" if worst == "unparseable" and len(statuses) > 1 else worst


def relations(gold: Kind, answer: Kind) -> Outcome:
    """The same equation up to a factor, or the same value under a name that only one of them may leave out."""
    if isinstance(gold, Relation) and isinstance(answer, Relation) and same_relation(gold, answer):
        return "right"
    (name, wanted), (label, found) = named(gold), named(answer)
    if name and label and isinstance(gold, Relation) and squeezed(name) != squeezed(label):
        return "wrong"
    if isinstance(found, Relation):
        chained = last_of(found) if not isinstance(wanted, Relation) else None
        return compare(wanted, chained) if chained else "wrong"
    if isinstance(wanted, Relation):
        return "wrong"
    return compare(wanted, found)


def named(kind: Kind) -> tuple[str, Kind]:
    """The name on the left of a value, and the value: x and 5 of x = 5."""
    if not isinstance(kind, Relation) or len(kind.signs) != 1 or kind.signs[0] not in ("=", "in"):
        return "", kind
    if NAME.fullmatch(kind.texts[0]) and not changes(kind.texts[0]):
        return kind.texts[0], kind.sides[1]
    return "", kind


def last_of(chain: Relation) -> Kind | None:
    """The last side of 2+40 = 42 or x = 2+40 = 42, if all others but a name are worth the same."""
    last = chain.sides[-1]
    if set(chain.signs) != {"="} or not isinstance(last, Formula) or last.node is None:
        return None
    sides = list(zip(chain.sides[:-1], chain.texts[:-1], strict=True))
    if len(sides) > 1 and NAME.fullmatch(sides[0][1]):
        sides = sides[1:]
    agree = all(isinstance(side, Formula) and side.node and evaluation.equal(side.node, last.node) for side, _ in sides)
    return last if agree else None


def same_relation(gold: Relation, answer: Relation) -> bool:
    """The same text, or the same solutions: one difference of sides is a multiple of the other."""
    if [squeezed(text) for text in gold.texts] == [
        squeezed(text) for text in answer.texts
    ] and gold.signs == answer.signs:
        return not any(isinstance(side, Many) for side in gold.sides)
    ours, theirs = difference(gold), difference(answer)
    return ours is not None and theirs is not None and same_solutions(ours, theirs)


def formulas(gold: Formula, answer: Formula) -> Outcome:
    """Two formulas, from cheapest to dearest: text, time of day, number, words, and last the value."""
    if squeezed(gold.text) == squeezed(answer.text) or is_choice(gold.text, answer.text):
        return "right"
    if CLOCK.fullmatch(gold.text):
        return "right" if same_time(gold.text, answer.text) else "wrong"
    if gold.number is not None:
        return numbers(gold.number, answer)
    if same_words(gold.text, answer.text, gold.node is None):
        return "right"
    if gold.node is None or answer.node is None:
        return "unparseable" if answer.node is None and answer.number is None else "wrong"
    if UNSOLVED.search(answer.text) and not UNSOLVED.search(gold.text.replace(r"\binom", "!")):
        return "unsimplified" if evaluation.equal(gold.node, answer.node) else "wrong"
    if not evaluation.equal(gold.node, answer.node):
        return "wrong"
    return "right" if answer.number or worked_out(gold.node, answer.node) else "unsimplified"


def numbers(gold: Number, answer: Formula) -> Outcome:
    """A literal is compared; a formula of the same value is unsimplified."""
    found = answer.number
    if found is None:
        if answer.node is None:
            return "unparseable"
        return "unsimplified" if evaluation.equal(num(gold.value), answer.node) else "wrong"
    if gold.base != found.base and found.base is not None:
        return "wrong"
    if not any(near(gold, value) for value in readings(gold, found)):
        return "wrong"
    whole = gold.shape == "integer" and found.shape == "fraction"
    return "unsimplified" if whole and not found.reduced else "right"


def readings(gold: Number, found: Number) -> list[Fraction]:
    """The answer in the gold's unit. A percent sign or a unit may be left out on one side."""
    if gold.unit.powers and found.unit.powers:
        return [found.value * found.unit.factor / gold.unit.factor] if gold.unit.powers == found.unit.powers else []
    if gold.percent != found.percent:
        return [found.value, found.value * 100 if found.percent else found.value / 100]
    return [found.value]


def near(gold: Number, value: Fraction) -> bool:
    """Exactly the same; less than half a unit of the last digit off where the gold is a rounded decimal."""
    if value == gold.value:
        return True
    return gold.rounded and gold.last is not None and abs(value - gold.value) < gold.last / 2


def is_choice(gold: str, answer: str) -> bool:
    """A, (A), A. some text; a gold of a letter with its text is met by the letter."""
    wanted, found = CHOICE.fullmatch(gold), CHOICE.fullmatch(answer)
    if not wanted or not found or ALTERNATIVE.search(found[4] or ""):
        return False
    bare = found[1] and (found[4] or "") and not re.match(r"[^.):]*[A-J]\)?[.):]", answer)  # A text: may be a sentence
    return not bare and letter(wanted) == letter(found)


def letter(choice: re.Match[str]) -> str:
    """Of a choice such as (B), in capitals."""
    return (choice[1] or choice[2] or choice[3]).upper()


def choices(text: str) -> set[str]:
    """Of several options: A, C and D, or ACD. Empty for anything else."""
    return set(re.findall("[A-J]", text)) if SEVERAL.fullmatch(text) else set()


def same_time(gold: str, answer: str) -> bool:
    """12:00 and 12:00 PM: the half of the day may be left out."""
    wanted, found = CLOCK.fullmatch(gold), CLOCK.fullmatch(answer)
    if not wanted or not found:
        return False
    halves = {(half[2] or "").casefold() for half in (wanted, found)} - {""}
    return len(halves) < 2 and [*map(int, wanted[1].split(":"))] == [*map(int, found[1].split(":"))]


def same_words(gold: str, answer: str, prose: bool) -> bool:
    """Words in any case; of few letters, which may be symbols, only the first may be another."""
    wanted, found = plain(gold), plain(answer)
    if not wanted or wanted.casefold() != found.casefold():
        return False
    word = wanted.isalpha() and len(wanted) > 1
    return prose or (word and (len(wanted) > 3 or wanted.casefold() in SHORT_WORDS or wanted[1:] == found[1:]))


def plain(text: str) -> str:
    """The text without quotation marks."""
    return QUOTES.sub("", text)
