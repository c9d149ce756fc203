"""Can the golds of a set be judged, and are its problems distinct? Before anything is asked."""

from collections import Counter
from collections.abc import Sequence

from isentropic.evaluation.answers import Asked
from isentropic.evaluation.grader import Grader, Item

SHOWN = 5


def unjudgeable(problems: Sequence[Asked], grader: Grader) -> list[Asked]:
    """Problems whose own gold, written as the grader wants it, is not right by it: no answer could be."""
    grades = grader.grade([Item(one.question, one.gold, grader.written(one.gold)) for one in problems])
    return [one for one, grade in zip(problems, grades, strict=True) if not grade.right]


def check_golds(problems: Sequence[Asked], grader: Grader, allow_unjudgeable: bool) -> list[str]:
    """What is to be said of the golds, a sentence for each set. Raises ValueError for such a set, unless allowed."""
    found = unjudgeable(problems, grader)
    notes = [
        sentence(name, [one for one in found if one.set == name], number, grader.name)
        for name, number in Counter(one.set for one in problems).items()
        if any(one.set == name for one in found)
    ]
    if notes and not allow_unjudgeable:
        raise ValueError(f"{'; '.join(notes)}; allow_unjudgeable=true goes on, and no answer to them will be right")
    return notes


def sentence(name: str, found: Sequence[Asked], number: int, grader: str) -> str:
    """How many golds are not right by their own grader, with the first few rows."""
    some = ", ".join(f"row {one.row}: {one.gold!r:.40}" for one in found[:SHOWN])
    more = ", ..." if len(found) > SHOWN else ""
    return f"{len(found)} of {number} golds of {name} are not right by {grader} itself ({some}{more})"


def repeated(problems: Sequence[Asked]) -> list[str]:
    """A sentence for each set in which rows ask what an earlier one asks. Each row counts, as the set has it."""
    rows = Counter(one.set for one in problems)
    distinct = Counter(name for name, _ in {(one.set, one.question) for one in problems})
    return [
        f"{rows[name] - distinct[name]} of {rows[name]} rows of {name} ask what an earlier row asks; each row counts"
        for name in rows
        if rows[name] > distinct[name]
    ]
