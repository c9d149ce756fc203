"""Problems of mathematics with one final answer, from any data set by its columns: DAPO-Math-17k, MATH-500, AIME."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from isentropic.task import Problem, Split
from isentropic.task.golds import without_bad_answers
from isentropic.task.math_task import MathTask
from isentropic.task.overlap import overlap, told
from isentropic.task.problem_set import ProblemSet, Row
from isentropic.task.prompts import check_template, fill
from isentropic.task.strictness import check_strictness
from isentropic.tools.cage import STRICT, Cage


@dataclass(frozen=True)
class Math(MathTask):
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
    bad_answers: Literal["drop", "refuse"]  # out of training, what is not judged right itself
    workers: int  # processes that judge answers
    timeout: float  # CPU seconds one answer may take
    memory: float  # GiB one answer may take
    cage: Cage = STRICT  # what this machine must have to hold what a model wrote
    drop_near: bool = False  # also out of training, what shares half of its runs of 8 words with a test problem

    def __post_init__(self) -> None:
        check_template(self.template)
        check_strictness(self.strictness)
        assert self.splits and self.judges

    def problems(self, split: Split) -> Sequence[Problem]:
        """In the order of the sets and their rows. Raises ValueError for a validation split that was not asked for."""
        if split == "validation" and not self.validation:
            raise ValueError("task.validation=0 holds no training problem out to validate on; 500 would do")
        return self.splits[split]

    def sets(self, split: Split) -> dict[str, int]:
        return self.sizes if split == "test" else {}

    def check(self) -> None:
        without_bad_answers(self, self.splits, self.bad_answers)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Problems of each test set."""
        return {name: len(one.read(f"task.test.{name}")) for name, one in self.test.items()}

    @cached_property
    def splits(self) -> dict[Split, list[Problem]]:
        """Problems that are new and not too long; the last `validation` of train are for validation.

        Else ValueError.
        """
        test = list(rows_of("test", self.test))
        tested = overlap([row.question for row in test], self.drop_near)
        fresh: dict[str, Row] = {}
        for row in rows_of("train", self.train):
            if not any(told(row.question, row.before) in one for one in tested) and len(row.question) <= (
                self.longest or len(row.question)
            ):
                fresh.setdefault(row.question, row)
        train = [self.problem(row) for row in fresh.values()]
        if not 0 <= self.validation < len(train):
            raise ValueError(
                f"task.validation={self.validation} must be at least 0 and leave some of the {len(train)} training "
                f"problems that are in no test set and within task.longest={self.longest}"
            )
        last = len(train) - self.validation
        return {"train": train[:last], "validation": train[last:], "test": [self.problem(row) for row in test]}

    def problem(self, row: Row) -> Problem:
        """The question in the template; all columns go along, for rewards."""
        return Problem(fill(self.template, row.question), row.answer, row.before, row.columns)


def rows_of(split: Split, sets: dict[str, ProblemSet]) -> Iterator[Row]:
    """Rows of a split's sets, one behind the other. Raises ValueError where there is no set."""
    if not sets:
        raise ValueError(f"task.{split} has no set; choose one with task/set@task.{split}=[...]")
    for name, one in sets.items():
        yield from one.read(f"task.{split}.{name}")
