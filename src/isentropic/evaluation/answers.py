"""What an evaluation keeps: `problems.jsonl`, and `answers.jsonl`, to which each finished batch is added."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from isentropic.runs.files import PROBLEMS, check_evaluation

ANSWERS = "answers.jsonl"
LONE = "surrogatepass"  # halves of pairs, which a server's JSON may hold, are kept as they are

Key = tuple[str, str, int]  # set, problem, child


@dataclass(frozen=True)
class Asked:
    """One problem as it was asked."""

    set: str
    problem: str  # 16 hexadecimal digits of its content
    row: int  # its place in the set
    question: str
    gold: str
    prompt: str  # as sent, special tokens shown
    prompt_hash: str  # 16 hexadecimal digits of its token ids
    prompt_tokens: int  # length of the prompt as it was sent


@dataclass(frozen=True)
class Answered:
    """One answer. `verdicts` and `statuses` are by grader, of which the first decides."""

    set: str
    problem: str
    child: int  # which of its answers, from 0
    seed: int  # that drew it
    text: str
    tokens: int  # that were written
    finish: str  # stop or length
    extracted: str | None  # the answer that stands in the text, as the first grader read it
    verdicts: Mapping[str, bool]
    statuses: Mapping[str, str]
    seconds: float  # of its batch, over the answers in it

    @property
    def key(self) -> Key:
        """Which answer it is: set, problem's id, child."""
        return self.set, self.problem, self.child

    @property
    def right(self) -> bool:
        """By the grader that decides."""
        return next(iter(self.verdicts.values()))

    @property
    def status(self) -> str:
        """Right, wrong, unparseable, timeout, …, by the grader that decides."""
        return next(iter(self.statuses.values()))

    def graded(self, verdicts: Mapping[str, bool], statuses: Mapping[str, str], extracted: str | None) -> "Answered":
        """The same answer with other grades."""
        return replace(self, verdicts=verdicts, statuses=statuses, extracted=extracted)


def add(folder: Path, answers: Iterable[Answered]) -> None:
    """At the end of the file, on disk when it returns."""
    with (folder / ANSWERS).open("a", encoding="utf-8", errors=LONE) as file:
        file.writelines(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in answers)
        file.flush()
        os.fsync(file.fileno())


def read_answers(folder: Path) -> list[Answered]:
    """Each once, the first that was kept. A half line at the end, which a kill left, is cut off the file.

    Raises ValueError with the number of a line in the middle that cannot be read.
    """
    file = folder / ANSWERS
    if not file.is_file():
        return []
    cut_half_line(file)
    found: dict[Key, Answered] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8", errors=LONE).split("\n")[:-1], start=1):
        try:
            one = answer_in(json.loads(line))
        except (ValueError, TypeError, AttributeError):
            raise ValueError(f"line {number} of {file} is no answer of an evaluation: {line[:60]!r}") from None
        found.setdefault(one.key, one)
    return list(found.values())


def answer_in(kept: Any) -> Answered:
    """Raises ValueError, TypeError or AttributeError for what no evaluation keeps, as of an edited file."""
    one = Answered(**kept)
    if not (isinstance(kept["text"], str) and isinstance(kept["child"], int) and one.verdicts):
        raise ValueError("an answer has a text, a number and at least one verdict")
    if one.verdicts.keys() != one.statuses.keys():
        raise ValueError("a verdict has a status")
    return one


def cut_half_line(file: Path) -> None:
    """What stands after the last line's end was not written whole."""
    with file.open("rb+") as lines:
        data = lines.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            lines.truncate(whole)


def write_problems(folder: Path, problems: Iterable[Asked]) -> None:
    """A line per problem, in the order that they are asked; replaces the file."""
    text = "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in problems)
    (folder / PROBLEMS).write_text(text, encoding="utf-8", errors=LONE)


def read_problems(folder: Path) -> list[Asked]:
    """In the order of sets and rows. Raises ValueError for a folder without them, and for a line that is none."""
    check_evaluation(folder)
    file = folder / PROBLEMS
    found: list[Asked] = []
    for number, line in enumerate(file.read_text(encoding="utf-8", errors=LONE).split("\n"), start=1):
        try:
            found += [Asked(**json.loads(line))] if line else []
        except (ValueError, TypeError):
            raise ValueError(f"line {number} of {file} is no problem of an evaluation: {line[:60]!r}") from None
    return found
