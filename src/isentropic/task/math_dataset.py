"""Problems of mathematics with one final answer, from any data set by its columns: DAPO-Math-17k, MATH-500, AIME."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from isentropic.task import Problem, Split, Task, Verdict
from isentropic.task.answers import after_marker, last_box
from isentropic.task.dataset_files import KINDS, from_file, from_hub
from isentropic.task.judge_pool import JudgePool
from isentropic.task.prompts import check_template, fill
from isentropic.task.strictness import check_strictness
from isentropic.tools.cage import STRICT, Cage

SIGNS = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class ProblemSet:
    """Where a set is and how it is read. Columns may be nested: reward_model.ground_truth."""

    path: str  # a .jsonl, .json, .csv or .parquet file, or a name on the hub
    subset: str | None  # of a set on the hub
    split: str  # of a set on the hub
    question: str  # the column of a text, or of a chat whose last message by the user it is
    answer: str  # the column of the answer, or of a solution with the answer in a box
    marker: str  # the answer stands after the last of these in its column; empty takes all of it

    def read(self, key: str) -> list[tuple[str, str]]:
        """Questions and answers, in order. Raises ValueError with the place of a row that cannot be used."""
        source = f"{key}.path={self.path}"
        if self.path.endswith(KINDS) or Path(self.path).exists():
            rows = from_file(source, Path(self.path).expanduser(), "the name of a data set on the hub")
        else:
            rows = from_hub(source, self.path, self.subset, self.split)
        pairs = [self.pair(f"{place} of {source}", row, key) for place, row in rows]
        if not pairs:
            raise ValueError(f"{source} is empty; it must hold at least one problem")
        return pairs

    def pair(self, place: str, row: Any, key: str) -> tuple[str, str]:
        question, answer = (column(row, name, place, key) for name in (self.question, self.answer))
        gold = self.gold(plain(answer))
        if not gold:
            raise ValueError(f"{place} has no answer after {self.marker!r} in {plain(answer)[-40:]!r}")
        return plain(question), gold

    def gold(self, text: str) -> str | None:
        return last_box(text) or after_marker(text, self.marker)


@dataclass(frozen=True)
class Math(Task):
    """References are answers as text. Raises ValueError for sets that cannot be read or leave nothing to learn from.

    A training question is taken once, and not at all if a test set has it too, whatever its spaces and signs.
    """

    train: dict[str, ProblemSet]
    test: dict[str, ProblemSet]
    longest: int | None  # characters of a training question, beyond which it is left out; null takes all
    validation: int  # the last so many problems of train, which training then never sees
    template: str  # the prompt, with {question} for the question
    marker: str  # the rest of the line after the last of these is the answer, unless one is boxed
    strictness: str  # what counts as equal: docs/equality.md
    workers: int  # processes that judge answers
    timeout: float  # CPU seconds one answer may take
    memory: float  # GiB one answer may take
    cage: Cage = STRICT  # what this machine must have to hold what a model wrote

    def __post_init__(self) -> None:
        check_template(self.template)
        check_strictness(self.strictness)
        assert self.splits and self.judges

    def problems(self, split: Split) -> Sequence[Problem]:
        """In the order of the sets and their rows. Raises ValueError for a validation split that was not asked for."""
        if split == "validation" and not self.validation:
            raise ValueError("task.validation=0 holds no training problem out to validate on; 500 would do")
        return self.splits[split]

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """Texts go to the judges as they are: nothing of them is read in this process."""
        pairs = zip(problems, texts, strict=True)
        return self.judges([(problem.reference, text, self.marker, self.strictness) for problem, text in pairs])

    def notes(self) -> list[str]:
        return self.judges.notes

    def written(self, answer: str) -> str:
        return rf"\boxed{{{answer}}}"

    def close(self) -> None:
        self.judges.close()

    @cached_property
    def judges(self) -> JudgePool:
        return JudgePool("isentropic.task.math_judge:judge", self.workers, self.timeout, self.memory, self.cage)

    @cached_property
    def splits(self) -> dict[Split, list[Problem]]:
        test = list(pairs_of("test", self.test))
        tested = {signless(question) for question, _ in test}
        fresh: dict[str, str] = {}
        for question, answer in pairs_of("train", self.train):
            if signless(question) not in tested and len(question) <= (self.longest or len(question)):
                fresh.setdefault(question, answer)
        train = [Problem(fill(self.template, question), answer) for question, answer in fresh.items()]
        if not 0 <= self.validation < len(train):
            raise ValueError(
                f"task.validation={self.validation} must be at least 0 and leave some of the {len(train)} training "
                f"problems that are in no test set and within task.longest={self.longest}"
            )
        last = len(train) - self.validation
        judged = [Problem(fill(self.template, question), answer) for question, answer in test]
        return {"train": train[:last], "validation": train[last:], "test": judged}


def pairs_of(split: Split, sets: dict[str, ProblemSet]) -> Iterator[tuple[str, str]]:
    if not sets:
        raise ValueError(f"task.{split} has no set; choose one with task/set@task.{split}=[...]")
    for name, one in sets.items():
        yield from one.read(f"task.{split}.{name}")


def column(row: Any, path: str, place: str, key: str) -> Any:
    value = row
    for name in path.split("."):
        if not isinstance(value, Mapping):
            raise ValueError(f"{place} is {row!r:.60}; it must be a record with the column {path} of {key}")
        record = cast(Mapping[str, Any], value)
        if record.get(name) is None:
            raise ValueError(f"{place} lacks {path}; its columns are {', '.join(map(str, record))}")
        value = record[name]
    return value


def plain(value: Any) -> str:
    """A text as it is; of a chat the last message by the user; of several answers all, as one would list them."""
    if not isinstance(value, list):
        return str(value)
    items = cast(list[Any], value)
    asked = [str(item["content"]) for item in items if isinstance(item, Mapping) and item.get("role") == "user"]
    return asked[-1] if asked else ", ".join(map(str, items))


def signless(question: str) -> str:
    return SIGNS.sub("", question).casefold()
