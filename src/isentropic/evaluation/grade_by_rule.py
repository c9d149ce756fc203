"""What graders by a rule share: the answer is found here, where only marks are looked for, and then compared."""

import json
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import get_args

from isentropic.evaluation.grader import Grade, Grader, Item
from isentropic.task import Status
from isentropic.task.judge_pool import JudgePool
from isentropic.tools import Outcome
from isentropic.tools.cage import STRICT, Cage

Pair = tuple[str, str]  # gold and answer
AT_ONCE = 16  # pairs of a call, since a call is a process


class TextGrader(Grader):
    """Compares texts, and needs nothing to do so."""

    @abstractmethod
    def found(self, text: str) -> str | None:
        """The answer in a text, in one pass; None if there is none."""

    @abstractmethod
    def same(self, gold: str, answer: str) -> bool:
        """Whether the answer is the gold one, by the rule."""

    def grade(self, items: Sequence[Item]) -> list[Grade]:
        return [self.graded(item.gold, self.found(item.text)) for item in items]

    def graded(self, gold: str, answer: str | None) -> Grade:
        """Of what was read out of a text; None, which is unparseable, where nothing was."""
        if answer is None:
            return Grade(False, "unparseable", None)
        right = self.same(gold, answer)
        return Grade(right, "right" if right else "wrong", answer)


class CagedGrader(Grader):
    """Compares by a rule of `task.comparisons` in caged processes, several pairs in each, equal ones once.

    Where a process fails, its pairs are compared one by one, so that none costs another its verdict. Raises ValueError
    for limits that allow nothing and for a machine whose cage is too weak.
    """

    def __init__(
        self, name: str, rule: str, workers: int, timeout: float, memory: float, cage: Cage = STRICT
    ) -> None:  # fmt: skip
        """`timeout` is in CPU seconds, `memory` in GiB, of one call."""
        self.name, self.rule = name, rule
        self.settings = (workers, timeout, memory, cage)
        assert self.judges

    @abstractmethod
    def found(self, text: str) -> str | None:
        """The answer in a text, in one pass; None if there is none."""

    def shown(self, answer: str) -> str:
        """The answer as it is kept."""
        return answer

    def grade(self, items: Sequence[Item]) -> list[Grade]:
        answers = [self.found(item.text) for item in items]
        pairs = [(item.gold, answer) for item, answer in zip(items, answers, strict=True) if answer is not None]
        statuses = self.compared(list(dict.fromkeys(pairs)))
        return [
            self.graded(answer, "unparseable" if answer is None else statuses[item.gold, answer])
            for item, answer in zip(items, answers, strict=True)
        ]

    def graded(self, answer: str | None, status: str) -> Grade:
        """From the judge's word; the answer as it is shown, unless it cannot be parsed."""
        shown = None if answer is None or status == "unparseable" else self.shown(answer)
        return Grade(status == "right", status, shown)

    def compared(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        """A word for each pair of gold and answer; those of a call that hung or crashed are asked again one by one."""
        calls = [pairs[first : first + AT_ONCE] for first in range(0, len(pairs), AT_ONCE)]
        said = [statuses(one, len(call)) for one, call in zip(self.ask(calls), calls, strict=True)]
        found = dict[Pair, str]()
        for call, words in zip(calls, said, strict=True):
            found |= {} if words is None else dict(zip(call, words, strict=True))
        alone = [pair for pair in pairs if pair not in found]
        for pair, outcome in zip(alone, self.ask([(pair,) for pair in alone]), strict=True):
            (word,) = statuses(outcome, 1) or ["timeout" if outcome.word == "timeout" else "crash"]
            found[pair] = word
        return found

    def ask(self, calls: Sequence[Sequence[Pair]]) -> list[Outcome]:
        """The judge's outcome of each call, in order; a call holds up to AT_ONCE pairs."""
        return self.judges.pool([(self.rule, tuple(call)) for call in calls])

    def close(self) -> None:
        self.judges.close()

    @cached_property
    def judges(self) -> JudgePool:
        """Caged processes, started by the first answer."""
        workers, timeout, memory, cage = self.settings
        return JudgePool("isentropic.task.comparisons:judge", workers, timeout, memory, cage)


def statuses(outcome: Outcome, count: int) -> list[str] | None:
    """Read with care: what judged may be what was judged. None where it is not one status for each."""
    if outcome.word != "ok":
        return None
    try:
        said = json.loads(outcome.said)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(said, list) and len(said) == count and all(one in get_args(Status) for one in said)
    return said if sound else None
