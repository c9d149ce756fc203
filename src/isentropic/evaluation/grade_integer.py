"""AIME's answers: integers, so 025 is 25, and 25.0, $25$ and 25. are too; anything else is no answer."""

from isentropic.evaluation.grade_by_rule import TextGrader
from isentropic.task.answers import final_answer, whole_integer


class Integer(TextGrader):
    """In the last box, or on the line after the last marker. A gold that is no integer is never met."""

    def __init__(self, name: str, marker: str) -> None:
        self.name, self.marker = name, marker

    def found(self, text: str) -> str | None:
        answer = final_answer(text, self.marker)
        value = None if answer is None else whole_integer(answer)
        return None if value is None else str(value)

    def same(self, gold: str, answer: str) -> bool:
        value = whole_integer(gold)
        return value is not None and str(value) == answer

    def markers(self) -> list[str]:
        return [self.marker]
