"""Ours, as `task=math` pays by: docs/equality.md."""

from isentropic.evaluation.grade_by_rule import CagedGrader
from isentropic.task.answers import final_answer
from isentropic.task.strictness import check_strictness
from isentropic.tools.cage import STRICT, Cage


class MathVerify(CagedGrader):
    """In the last box, or on the line after the last marker."""

    def __init__(
        self, name: str, marker: str, strictness: str, workers: int, timeout: float, memory: float, cage: Cage = STRICT
    ) -> None:
        check_strictness(strictness)
        super().__init__(name, strictness, workers, timeout, memory, cage)
        self.marker = marker

    def found(self, text: str) -> str | None:
        return final_answer(text, self.marker)

    def markers(self) -> list[str]:
        return [self.marker]
