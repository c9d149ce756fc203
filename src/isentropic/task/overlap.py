"""Does training hold a question of a test, also wrapped in an instruction?"""

import re
from collections.abc import Iterable

SIGNS = re.compile(r"[\W_]+")
LEAST = 24  # letters and digits from which a question within another is no chance


def signless(question: str) -> str:
    """Whatever its spaces and signs."""
    return SIGNS.sub("", question).casefold()


class Overlap:
    """Found in time that grows with the text, whatever the number of test questions."""

    def __init__(self, tests: Iterable[str]) -> None:
        self.whole = {signless(question) for question in tests}
        self.starts: dict[str, list[str]] = {}
        for text in self.whole:
            if len(text) >= LEAST:
                self.starts.setdefault(text[:LEAST], []).append(text)

    def __contains__(self, question: str) -> bool:
        """The same question, or one of the tests within it."""
        text = signless(question)
        if text in self.whole:
            return True
        for place in range(len(text) - LEAST + 1):
            for test in self.starts.get(text[place : place + LEAST], ()):
                if text.startswith(test, place):
                    return True
        return False
