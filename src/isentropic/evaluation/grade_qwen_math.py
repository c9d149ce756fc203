"""Qwen2.5-Math's own parser and rule; without a box it takes what follows "the answer is", or the last number."""

from isentropic.evaluation.grade_by_rule import CagedGrader
from isentropic.task.kinds.qwen_found import found
from isentropic.tools.cage import STRICT, Cage


class QwenMath(CagedGrader):
    """QwenLM/Qwen2.5-Math a45202b, evaluation/; what differs stands in `task.kinds.qwen_math`."""

    def __init__(self, name: str, workers: int, timeout: float, memory: float, cage: Cage = STRICT) -> None:
        super().__init__(name, "qwen_math", workers, timeout, memory, cage)

    def found(self, text: str) -> str | None:
        return found(text)
