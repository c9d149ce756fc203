"""What tasks share whose references are answers as text: a box or a marker in an answer, and judges that compare."""

from collections.abc import Sequence
from functools import cached_property

from isentropic.task import Problem, Task, Verdict
from isentropic.task.judge_pool import JudgePool
from isentropic.tools.cage import Cage


class MathTask(Task):
    """Texts go to the judges as they are: nothing of them is read in this process."""

    marker: str  # the rest of the line after the last of these is the answer, unless one is boxed
    strictness: str  # what counts as equal: docs/equality.md
    workers: int  # processes that judge answers
    timeout: float  # CPU seconds one answer may take
    memory: float  # GiB one answer may take
    cage: Cage  # what this machine must have to hold what a model wrote

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        pairs = zip(problems, texts, strict=True)
        return self.judges([(problem.reference, text, self.marker, self.strictness) for problem, text in pairs])

    @property
    def verifies_aside(self) -> bool:
        return True

    def notes(self) -> list[str]:
        return self.judges.notes

    def written(self, answer: str) -> str:
        return rf"\boxed{{{answer}}}"

    def markers(self) -> list[str]:
        return [self.marker]

    def close(self) -> None:
        self.judges.close()

    @cached_property
    def judges(self) -> JudgePool:
        """Caged processes, started by the first answer."""
        return JudgePool("isentropic.task.math_judge:judge", self.workers, self.timeout, self.memory, self.cage)
