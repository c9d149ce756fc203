"""The problems of a set, as they are asked: from its rows, or from the test split of a task."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from sys import maxsize
from typing import Any, Protocol, runtime_checkable

from isentropic.evaluation.answers import Asked
from isentropic.evaluation.protocol import Exam, parsed
from isentropic.rollout.prompts import PromptEncoder
from isentropic.sampler import Decoding
from isentropic.task import Message, Problem, Split, Task
from isentropic.task.prompts import fill


@runtime_checkable
class Row(Protocol):
    """A problem as its set has it."""

    @property
    def question(self) -> str:
        """What is asked, without what stands before it."""
        ...

    @property
    def before(self) -> tuple[Message, ...]:
        """Messages before the question, such as the system's."""
        ...

    @property
    def answer(self) -> str:
        """The gold answer as text, read out of its column."""
        ...

    @property
    def columns(self) -> Mapping[str, Any]:
        """All that the file says of the row."""
        ...


@runtime_checkable
class Rows(Protocol):
    """A set on disk or on the hub."""

    def read(self, key: str) -> Sequence[Row]:
        """The set's rows in the order of its file."""
        ...


@dataclass(frozen=True)
class Question:
    """`problem` holds what is sent; `text` and `gold` what graders see."""

    problem: Problem
    text: str
    gold: str


@dataclass(frozen=True)
class AskedSet:
    """One set with all that decides its answers."""

    name: str  # math500, or math500[100] where it has more
    base: str  # math500
    questions: list[Question]
    asked: list[Asked]
    prompts: list[list[int]]
    count: int  # answers to each question
    decoding: Decoding

    @property
    def answers(self) -> int:
        """How many are asked for: problems times answers of each."""
        return len(self.asked) * self.count

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max(map(len, self.prompts))


def of_rows(name: str, rows: Rows, template: str | None) -> tuple[str, list[Question]]:
    """The set's name and problems, in its order. Raises ValueError for one that cannot be read, or has fewer."""
    base, number = parsed(name)
    found = list(rows.read(f"sets.{base}"))
    if number is not None and number > len(found):
        raise ValueError(f"{name} asks for {number} problems, and {base} has {len(found)}")
    whole = number is None or number == len(found)
    questions = [
        Question(
            Problem(row.question if template is None else fill(template, row.question), row.answer, row.before),
            row.question,
            row.answer,
        )
        for row in found[:number]
    ]
    return base if whole else name, questions


def of_task(name: str, task: Task, split: Split) -> tuple[str, list[Question]]:
    """The same of a task, whose problems bring their own prompts. Of an endless one the number must be said.

    Raises ValueError where it was not, and for more problems than there are.
    """
    base, number = parsed(name)
    problems = task.problems(split)
    if number is None and len(problems) == maxsize:
        raise ValueError(f"{base} makes as many problems as it is asked for; say how many, as in {base}[256]")
    if number is not None and number > len(problems):
        raise ValueError(f"{name} asks for {number} problems, and {base} has {len(problems)}")
    whole = number is None or number == len(problems)
    chosen = list(problems[: len(problems) if number is None else number])
    return base if whole else name, [Question(one, one.prompt, gold_of(task, one)) for one in chosen]


def gold_of(task: Task, problem: Problem) -> str:
    """The right answer, or where there are many, what they are checked against."""
    return task.gold(problem) or json.dumps(problem.reference, ensure_ascii=False, default=str)


def asked_set(
    name: str, questions: Sequence[Question], exam: Exam, prompts: PromptEncoder, ends: str | None
) -> AskedSet:
    """`ends` is the token after an answer of the chat template. Raises ValueError for a prompt that is lost in part."""
    tokens: list[list[int]] = []
    asked: list[Asked] = []
    seen: dict[str, int] = {}
    for row, question in enumerate(questions):
        prompts.check(question.problem)
        ids = prompts.encode(question.problem)
        shown = prompts.shown(question.problem)
        again = seen[question.text] = seen.get(question.text, -1) + 1
        tokens.append(ids)
        asked.append(
            Asked(
                name, problem_hash(question, again), row, question.text, question.gold, shown,
                hexadecimal(json.dumps(ids)), len(ids),
            )
        )  # fmt: skip
    decoding = exam.decoding if ends is None or exam.decoding.stop else replace(exam.decoding, stop=ends)
    return AskedSet(name, parsed(name)[0], list(questions), asked, tokens, exam.count, decoding)


def problem_hash(question: Question, again: int) -> str:
    """Of its content; a set that has it twice asks it twice, and tells the two apart."""
    before = [[one["role"], one["content"]] for one in question.problem.before]
    return hexadecimal(json.dumps([question.text, before, *([again] if again else [])], ensure_ascii=False))


def hexadecimal(text: str) -> str:
    """64 bits of BLAKE2b of a text, which may hold lone surrogates."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def seed_of(seed: int, base: str, problem: str, child: int) -> int:
    """Of one answer, in [0, 2**56): whatever the number of answers, and of a part of a set as of the whole."""
    digest = blake2b(f"{seed}/{base}/{problem}/{child}".encode(), digest_size=7).digest()
    return int.from_bytes(digest)
