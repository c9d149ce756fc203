"""What a task says of answers to its own problems, and the rule by which answers of mathematics are judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isentropic.evaluation.grader import Grade, Grader, Item
from isentropic.task import Problem, Split, Task
from isentropic.task.answers import final_answer
from isentropic.task.math_task import MathTask
from isentropic.task.strictness import check_strictness
from isentropic.tools.cage import STRICT, Cage


@dataclass(frozen=True)
class Rule(MathTask):
    """Final answers in text, of any set: a box, or the rest of the line after the marker."""

    marker: str  # the rest of the line after the last of these is the answer, unless one is boxed
    strictness: str  # what counts as equal: docs/equality.md
    workers: int  # processes that judge answers
    timeout: float  # CPU seconds one answer may take
    memory: float  # GiB one answer may take
    cage: Cage = STRICT  # what this machine must have to hold what a model wrote

    def __post_init__(self) -> None:
        check_strictness(self.strictness)

    def problems(self, split: Split) -> Sequence[Problem]:
        return []


@dataclass
class ByTask(Grader):
    """By the task's own verdicts. `problems` are those that may be asked, by what stands in an item as the question."""

    name: str
    task: Task
    problems: Mapping[str, Problem] = field(default_factory=dict[str, Problem])

    def grade(self, items: Sequence[Item]) -> list[Grade]:
        asked = [self.problems.get(item.question) or Problem(item.question, item.gold) for item in items]
        verdicts = self.task.verify(asked, [item.text for item in items])
        return [
            Grade(verdict.correct, verdict.status, self.read(item.text))
            for item, verdict in zip(items, verdicts, strict=True)
        ]

    def read(self, text: str) -> str | None:
        """The answer that stands in a text; a task without a marker takes all of it."""
        return final_answer(text, self.task.markers()[0]) if self.task.markers() else text.strip() or None

    def written(self, gold: str) -> str:
        return self.task.written(gold)

    def markers(self) -> list[str]:
        return list(self.task.markers())

    def close(self) -> None:
        self.task.close()
