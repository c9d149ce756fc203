"""Several graders on the same answers: the first decides, and one may be asked only about what it calls wrong."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, count

from isentropic.evaluation.answers import Answered, Asked, Key
from isentropic.evaluation.grader import Grade, Grader, Item

NOT_ASKED, CONFIRMED, DOUBTED = "not asked", "confirmed", "doubted"  # by an upper reading, of what was right before it
Places = Mapping[tuple[str, str], Asked]  # by set and problem


def graded(
    answers: Sequence[Answered], problems: Sequence[Asked], graders: Sequence[Grader]
) -> tuple[list[Answered], list[str]]:
    """With the graders' verdicts beside those that the answers have, and the names that these have.

    Where a grader of that name has said something else before, the new one has a number behind its name. The first of
    all decides. Raises ValueError for an answer to a problem that is not there, and for a grader of wrong answers alone
    where none has decided.
    """
    asked = {(one.set, one.problem): one for one in reversed(problems)}
    for one in answers:
        if (one.set, one.problem) not in asked:
            raise ValueError(f"an answer is to problem {one.problem} of {one.set}, which is not among the problems")
    items = [item_of(one, asked) for one in answers]
    found, names = list(answers), list[str]()
    for grader in graders:
        decided = [one.right if one.verdicts else None for one in found]
        grades = read_by(grader, items, [one.key for one in found], decided)
        names.append(next(name for name in numbered(grader.name) if agrees(name, found, grades)))
        found = [with_grade(one, names[-1], grade) for one, grade in zip(found, grades, strict=True)]
    return found, names


def judged(items: Sequence[Item], keys: Sequence[Key], graders: Mapping[str, Grader]) -> dict[str, list[Grade]]:
    """Grades of new answers, by grader. Raises ValueError for a first grader that needs one before it."""
    found: dict[str, list[Grade]] = {}
    decided: list[bool | None] = [None] * len(items)
    for name, grader in graders.items():
        found[name] = read_by(grader, items, keys, decided)
        decided = [grade.right for grade in next(iter(found.values()))]
    return found


def read_by(
    grader: Grader, items: Sequence[Item], keys: Sequence[Key], decided: Sequence[bool | None]
) -> list[Grade]:  # fmt: skip
    """One grader's grades. `decided` is what the grader that decides said of each; None where none has.

    Raises ValueError for an upper reading that stands before the grader it reads after.
    """
    if not grader.only_wrong:
        return grader.grade(items)
    if None in decided:
        raise ValueError(f"{grader.name} is asked about what another grader calls wrong; name that one before it")
    asked = [not right or drawn(key, grader) for key, right in zip(keys, decided, strict=True)]
    said = iter(grader.grade([item for item, ask in zip(items, asked, strict=True) if ask]))
    return [
        upper(next(said) if ask else None, bool(right)) for ask, right in zip(asked, decided, strict=True)
    ]  # fmt: skip


def upper(said: Grade | None, right: bool) -> Grade:
    """What was right stays right, so that the score can only rise; what is said of it is kept as the status."""
    if said is None:
        return Grade(True, NOT_ASKED, None)
    return Grade(True, CONFIRMED if said.right else DOUBTED, said.extracted) if right else said


def drawn(key: Key, grader: Grader) -> bool:
    """Whether a right answer is among those that are asked about, the same for the same seed and answer."""
    mark = blake2b("\0".join(map(str, (grader.seed, *key))).encode(), digest_size=8).digest()
    return int.from_bytes(mark) < grader.doubt * 2**64


def item_of(one: Answered, asked: Places) -> Item:
    """A kept answer as graders take it: question, gold, text."""
    problem = asked[one.set, one.problem]
    return Item(problem.question, problem.gold, one.text)


def with_grade(one: Answered, name: str, grade: Grade) -> Answered:
    """The answer with one more grader's grade; what was extracted stays the first grader's."""
    extracted = one.extracted if one.verdicts else grade.extracted  # that of the first
    return one.graded({**one.verdicts, name: grade.right}, {**one.statuses, name: grade.status}, extracted)


def agrees(name: str, answers: Sequence[Answered], grades: Sequence[Grade]) -> bool:
    """Whether no answer has another grade by this name."""
    return all(
        name not in one.verdicts or (one.verdicts[name], one.statuses[name]) == (grade.right, grade.status)
        for one, grade in zip(answers, grades, strict=True)
    )


def numbered(name: str) -> Iterator[str]:
    """The name itself, then with numbers from 2 on: an earlier grader of the same name keeps its verdicts."""
    return chain([name], (f"{name}.{number}" for number in count(2)))
