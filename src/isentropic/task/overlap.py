"""Does training hold a question of a test, also wrapped in an instruction, or nearly so?

Answers are not compared, and a question that was translated or told in other words is not found.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from isentropic.task import Message

SIGNS = re.compile(r"[\W_]+")
LEAST = 24  # letters and digits from which a question within another is no chance
LEAST_ALONE = 8  # and from which one in lines of its own is none
LABEL = re.compile(
    r"[\W_]{0,9}(?:question|problem|q|exercise|task|input|user|问题|题目)\s{0,3}\d{0,4}[\W_]{0,9}", re.IGNORECASE
)
SET = re.compile(  # in other sizes
    r"\\(?:(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits)(?![A-Za-z])|[dtc](?=(?:frac|binom)(?![A-Za-z])))"
)
WORD = re.compile(r"[^\W\d_]+|\d+")
SPACING = re.compile(
    r"\\(?:[,;:!>\s]|(?:quad|qquad|enspace|thinspace|medspace|thickspace|[hv]space\*?\s*\{[^{}]*\})(?![a-z]))|~"
)
RUN = 8  # words
SHARE = 0.5  # of a test question's runs, from which on one training question is nearly it
WRAPPED = 5  # questions from which on what all begin or end with is an instruction


def signless(question: str) -> str:
    """Whatever its spaces and signs, its width, accents and raised digits in Unicode, and how LaTeX sets it."""
    return SIGNS.sub("", unset(question)).casefold()


def unset(question: str) -> str:
    """Letters in one form, without what LaTeX spaces and sizes with; &lt; of a web page is <."""
    text = unicodedata.normalize("NFKC", html.unescape(question) if "&" in question else question)
    return SET.sub(r"\\", SPACING.sub(" ", text)) if "\\" in text or "~" in text else text


def words(question: str) -> list[str]:
    """Letters and digits of any script, apart from each other; in lower case, without what LaTeX sets with."""
    return WORD.findall(unset(question).lower())


def alone(question: str) -> Iterator[str]:
    """Lines, and runs of lines between empty ones, with and without a label: where a wrapper puts a question."""
    blocks = question.split("\n\n")
    for part in [*blocks, *(line for block in blocks if "\n" in block for line in block.split("\n"))]:
        label = LABEL.match(part)
        yield from (part, part[label.end() :]) if label else (part,)


class Overlap:
    """Found in time that grows with the text, whatever the number of test questions."""

    def __init__(self, tests: Iterable[str]) -> None:
        self.whole = {signless(question) for question in tests} - {""}  # what is signs alone is like no other
        self.short = {text for text in self.whole if LEAST_ALONE <= len(text) < LEAST}
        self.starts: dict[str, list[str]] = {}
        for text in self.whole:
            if len(text) >= LEAST:
                self.starts.setdefault(text[:LEAST], []).append(text)

    def __contains__(self, question: str) -> bool:
        """The same question, or one of the tests within it."""
        return next(self.found(question), None) is not None

    def found(self, question: str) -> Iterator[str]:
        """Tests, without their signs, that are the question or lie within it; one may come twice."""
        text = signless(question)
        if text in self.whole:
            yield text
        if self.short:
            yield from self.short.intersection(map(signless, alone(question)))
        for place in range(len(text) - LEAST + 1):
            for test in self.starts.get(text[place : place + LEAST], ()):
                if text.startswith(test, place):
                    yield test


class Near:
    """Test questions of which half of the runs of 8 words, or more, stand in one training question.

    Of those shorter than a run, all words must stand there in a row. What all tests of a set begin or end with is left
    out first.
    """

    def __init__(self, *sets: Sequence[str]) -> None:
        self.runs: dict[tuple[str, ...], list[int]] = {}
        self.least: list[float] = []  # runs of each test that are enough
        self.sizes: set[int] = set()  # of runs
        texts = [text for tests in sets for text in unwrapped([words(question) for question in tests])]
        for number, text in enumerate(texts):
            size = min(RUN, len(text))
            found = set(runs(text, size)) if size else set[tuple[str, ...]]()
            self.least.append(SHARE * len(found))
            self.sizes |= {size} - {0}
            for run in found:
                self.runs.setdefault(run, []).append(number)

    def __contains__(self, question: str) -> bool:
        return bool(self.found(question))

    def found(self, question: str) -> set[int]:
        """Places of the tests, counted through all sets, that this one training question nearly holds."""
        text = words(question)
        there = {run for size in self.sizes for run in runs(text, size)}
        counts = Counter(number for run in there for number in self.runs.get(run, ()))
        return {number for number, count in counts.items() if count >= self.least[number]}


def runs(text: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """All runs of `size` words, from each word on."""
    return zip(*(text[start:] for start in range(size)), strict=False)


def unwrapped(texts: Sequence[list[str]]) -> list[list[str]]:
    """Without the instruction that all begin or end with: its runs would stand in every training question too."""
    if len({tuple(text) for text in texts}) < WRAPPED:
        return list(texts)
    before = shared(texts)
    after = shared([text[before:][::-1] for text in texts])
    return [text[before : len(text) - after] for text in texts]


def shared(texts: Sequence[list[str]]) -> int:
    """How many words all begin with."""
    first, last = min(texts), max(texts)  # what these two share, all between them do
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def told(question: str, before: Iterable[Message]) -> str:
    """All of a chat as one text: a question may have been asked in an earlier turn, or stand among the examples."""
    return "\n\n".join([*(message["content"] for message in before), question])


def overlap(tests: Sequence[str], drop_near: bool) -> list[Overlap | Near]:
    """What a task keeps out of training: the tests' questions, and with `drop_near` what is nearly one of them."""
    return [Overlap(tests), *([Near(tests)] if drop_near else [])]
