"""GSM8K's flexible reading: the last number of a text, as text. lm-evaluation-harness 01fe40a, tasks/gsm8k"""

import re

from isentropic.evaluation.grade_by_rule import TextGrader

NUMBER = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")
AROUND = re.compile(r"[,$]|\.$")  # what is left out of a number before it is compared


class LastNumber(TextGrader):
    """Its `flexible-extract`, compared by its `exact_match`: 18.00 is not 18."""

    def __init__(self, name: str) -> None:
        self.name = name

    def found(self, text: str) -> str | None:
        numbers = NUMBER.findall(text)
        return AROUND.sub("", numbers[-1]) or None if numbers else None

    def same(self, gold: str, answer: str) -> bool:
        return AROUND.sub("", gold) == answer

    def written(self, gold: str) -> str:
        return f"The answer is {gold}."
