"""The rule of JustRL and STAPO before a model is asked, and of MathRuler: PRM800K's, on the last box."""

from isentropic.evaluation.grade_by_rule import CagedGrader
from isentropic.task.answers import BOXED, very_last_box
from isentropic.tools.cage import STRICT, Cage


class Prm800k(CagedGrader):
    """thunlp/JustRL cf444e9, evals/utils.py; what differs stands in `task.kinds.prm800k`."""

    def __init__(self, name: str, workers: int, timeout: float, memory: float, cage: Cage = STRICT) -> None:
        super().__init__(name, "prm800k", workers, timeout, memory, cage)

    def found(self, text: str) -> str | None:
        return very_last_box(text) or None

    def markers(self) -> list[str]:
        return [BOXED]
