"""The last box, letter by letter: what the strictest scripts do, so 0.5 is not 1/2 and 27 is not 27.0."""

from isentropic.evaluation.grade_by_rule import TextGrader
from isentropic.task.answers import BOXED, very_last_box


class BoxedString(TextGrader):
    r"""\boxed{} or \fbox{}; a last box that is not closed is no answer."""

    def __init__(self, name: str) -> None:
        self.name = name

    def found(self, text: str) -> str | None:
        return very_last_box(text) or None

    def same(self, gold: str, answer: str) -> bool:
        return gold.strip() == answer

    def markers(self) -> list[str]:
        return [BOXED]
