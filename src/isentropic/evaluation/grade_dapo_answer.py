"""DAPO's reward (arXiv:2503.14476): the last "Answer:" of the last 300 characters, as text after Minerva's spelling."""

import re

from isentropic.evaluation.grade_by_rule import TextGrader
from isentropic.task.kinds.minerva_text import minerva_text

ANSWER = re.compile(r"answer\s*:\s*([^\n]+)", re.IGNORECASE)
TAIL = 300  # characters of a text that are looked at; verl, utils/reward_score/math_dapo.py


class DapoAnswer(TextGrader):
    """A box alone is no answer."""

    def __init__(self, name: str) -> None:
        self.name = name

    def found(self, text: str) -> str | None:
        answers = ANSWER.findall(text[-TAIL:])
        return minerva_text(answers[-1]) if answers else None

    def same(self, gold: str, answer: str) -> bool:
        return minerva_text(gold) == answer

    def written(self, gold: str) -> str:
        return f"Answer: {gold}"

    def markers(self) -> list[str]:
        return ["Answer:"]
