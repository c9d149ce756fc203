r"""One question for each kind: numbers exactly, tuples in order, sets in any, equations up to a factor.

The first side is the gold, which says what is asked: where it is a number, only a number answers it.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from isentropic.task.kinds import evaluation
from isentropic.task.kinds.equations import difference, same_solutions, solved
from isentropic.task.kinds.expressions import Node, num
from isentropic.task.kinds.literals import Number
from isentropic.task.kinds.shapes import NAME, Formula, Kind, Many, Matrix, Relation, Union, squeezed
from isentropic.task.kinds.simplicity import worked_out
from isentropic.task.kinds.units import changes
from isentropic.task.kinds.words import CHOICE, CLOCK, is_choice, same_time, same_words

Outcome = Literal["right", "unsimplified", "wrong", "unparseable"]

COORDINATE = re.compile(r"[A-Za-z](?:_\s?\{?\s?\d\s?\}?)?")
EMPTY = Formula(r"\emptyset")
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
    if isinstance(gold, Matrix) and (rows := rows_of(answer)):
        return compare(gold, rows)
    if isinstance(gold, Union) and isinstance(answer, Union):
        return unordered(gold.parts, answer.parts)
    return many(gold, answer)


def many(gold: Kind, answer: Kind) -> Outcome:
    """Lists and sets in any order, one of them possibly without its braces; anything else in brackets in its own."""
    if EMPTY in (gold, answer):
        return "wrong"
    answer = placed(answer) if brackets(gold) == "()" else answer
    ours, theirs = brackets(gold), brackets(answer)
    wanted = gold.items if isinstance(gold, Many) else (gold,)
    found = answer.items if isinstance(answer, Many) else (answer,)
    if "{}" in (ours, theirs) and {ours, theirs} <= {"{}", "", None}:
        once = distinct(wanted)
        return unordered(once, distinct(found, len(once)))
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


def placed(answer: Kind) -> Kind:
    """(3, -1) of x = 3, y = -1, by the order of the names; of anything else itself."""
    if not isinstance(answer, Many) or answer.brackets:
        return answer
    values = {
        item.texts[0]: item.sides[1] for item in answer.items if isinstance(item, Relation) and item.signs == ("=",)
    }
    if len(values) < len(answer.items) or not all(COORDINATE.fullmatch(name) for name in values):
        return answer
    return Many(tuple(values[name] for name in sorted(values)), "()")


def rows_of(kind: Kind) -> Matrix | None:
    """[[1, 2], [3, 4]] as a matrix; None of anything else."""
    if not isinstance(kind, Many) or kind.brackets != "[]":
        return None
    rows = [item.items for item in kind.items if isinstance(item, Many) and item.brackets == "[]"]
    return Matrix(tuple(rows)) if len(rows) == len(kind.items) else None


def distinct(items: Sequence[Kind], most: int | None = None) -> tuple[Kind, ...]:
    """Items of a set, each once, in the order of their first; no further than to one more than `most`."""
    kept = list[Kind]()
    for item in items:
        if not any(compare(other, item) == "right" for other in kept):
            kept.append(item)
        if most is not None and len(kept) > most:
            break
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
    if isinstance(gold, Relation) and isinstance(answer, Relation) and same_solved(gold, answer):
        return "right"
    (name, wanted), (label, found) = named(gold), named(answer)
    if name and label and isinstance(gold, Relation) and squeezed(name) != squeezed(label):
        return "wrong"
    if label and (turned(label) or (isinstance(wanted, Formula) and CHOICE.fullmatch(wanted.text) and label.isupper())):
        return "wrong"  # (y, x) = ..., A = B
    if isinstance(found, Relation) and found.signs in (("approx",), ("=", "approx")):
        side = asked_side(wanted, found)
        return compare(wanted, side) if side else "wrong"
    if isinstance(found, Relation):
        chained = last_of(found) if not isinstance(wanted, Relation) else None
        return compare(wanted, chained) if chained else "wrong"
    if isinstance(wanted, Relation):
        return "wrong"
    return compare(wanted, found)


def same_solved(gold: Relation, answer: Relation) -> bool:
    """The same relation, as far worked out as the gold."""
    return same_relation(gold, answer) and solved(gold, answer)


def named(kind: Kind) -> tuple[str, Kind]:
    """The name on the left of a value, and the value: x and 5 of x = 5."""
    if not isinstance(kind, Relation) or len(kind.signs) != 1 or kind.signs[0] not in ("=", "in"):
        return "", kind
    if NAME.fullmatch(kind.texts[0]) and not changes(kind.texts[0]):
        return kind.texts[0], kind.sides[1]
    return "", kind


def turned(label: str) -> bool:
    """Whether it names coordinates in another order than x, y, z."""
    letters = re.findall(r"[a-z]", label)
    return label.startswith("(") and set(letters) <= set("xyz") and letters != sorted(letters)


def asked_side(gold: Kind, found: Relation) -> Kind | None:
    r"""Of 5\sqrt{3} \approx 8.66 the rounded side for a rounded gold, else the other; None where they differ."""
    exactly, rounded = found.sides[-2:]
    if not isinstance(rounded, Formula) or rounded.number is None or not isinstance(exactly, Formula):
        return None
    if len(found.sides) > 2 and not NAME.fullmatch(found.texts[0]):
        return None
    is_name = exactly.node is not None and exactly.node.head == "sym" and bool(evaluation.symbols(exactly.node))
    if not is_name and not (exactly.node and agrees(exactly.node, rounded.number)):
        return None
    wants_rounded = isinstance(gold, Formula) and gold.number is not None and gold.number.rounded
    return rounded if wants_rounded else None if is_name else exactly


def agrees(exactly: Node, rounded: Number) -> bool:
    """Whether a constant rounds to it."""
    return evaluation.within(exactly, (rounded.last or Fraction(0)) / 2, rounded.value)


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
    if (gold.base != found.base and found.base is not None) or (found.cut and not gold.rounded):
        return "wrong"
    if not any(near(gold, value) for value in readings(gold, found)):
        return "wrong"
    whole = gold.shape == "integer" and found.shape == "fraction"
    return "unsimplified" if whole and not found.reduced else "right"


def readings(gold: Number, found: Number) -> list[Fraction]:
    """The answer in the gold's unit. A percent sign or a unit may be left out on one side."""
    if gold.unit.powers and found.unit.powers:
        return [found.value * found.unit.factor / gold.unit.factor] if gold.unit.powers == found.unit.powers else []
    if found.percent and gold.shape == "fraction":
        return [found.value]
    if gold.percent != found.percent:
        return [found.value, found.value * 100 if found.percent else found.value / 100]
    return [found.value]


def near(gold: Number, value: Fraction) -> bool:
    """Exactly the same; less than half a unit of the last digit off where the gold is a rounded decimal."""
    if value == gold.value:
        return True
    return gold.rounded and gold.last is not None and abs(value - gold.value) < gold.last / 2
