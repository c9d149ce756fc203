"""GSM8K: grade-school word problems with a number as the answer, from files or the hub. arXiv:2110.14168"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from isentropic.task import Problem, Split
from isentropic.task.dataset_files import from_file, from_hub
from isentropic.task.math_task import MathTask
from isentropic.task.overlap import Near
from isentropic.task.prompts import check_template, fill
from isentropic.task.strictness import check_strictness
from isentropic.tools.cage import STRICT, Cage

HUB = "openai/gsm8k"
COLUMNS = ("question", "answer")
GOLD = re.compile(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$")


@dataclass(frozen=True)
class Gsm8k(MathTask):
    """References are the numbers after ####, as text. Raises ValueError for data that cannot be read or checked."""

    train: str | None  # a .jsonl, .json, .csv or .parquet file with the columns question and answer; null reads the hub
    test: str | None
    validation: int  # the last so many problems of train, which training then never sees
    template: str  # the prompt, with {question} for the question
    marker: str  # the rest of the line after the last of these is the answer, unless one is boxed
    strictness: str  # what counts as equal: docs/equality.md
    workers: int  # processes that judge answers
    timeout: float  # CPU seconds one answer may take
    memory: float  # GiB one answer may take
    cage: Cage = STRICT  # what this machine must have to hold what a model wrote
    drop_near: bool = False  # out of training, what shares half of its runs of 8 words with a test problem

    def __post_init__(self) -> None:
        check_template(self.template)
        check_strictness(self.strictness)
        train, test = ({problem.prompt for problem in self.splits[split]} for split in ("train", "test"))
        shared = train & test
        if shared:
            raise ValueError(
                f"task.train={self.train} and task.test={self.test} share {len(shared)} questions; remove them from one"
            )
        assert self.judges

    def problems(self, split: Split) -> Sequence[Problem]:
        """In the order of the file. Raises ValueError for a validation split that was not asked for."""
        if split == "validation" and not self.validation:
            raise ValueError("task.validation=0 holds no training problem out to validate on; 500 would do")
        return self.splits[split]

    @cached_property
    def splits(self) -> dict[Split, list[Problem]]:
        """All problems, read once; the last `validation` of train are for validation.

        Raises ValueError if these are all.
        """
        train, test = self.read("train", self.train), self.read("test", self.test)
        if self.drop_near:
            near = Near([str(problem.columns[COLUMNS[0]]) for problem in test])
            train = [problem for problem in train if str(problem.columns[COLUMNS[0]]) not in near]
        if not 0 <= self.validation < len(train):
            raise ValueError(
                f"task.validation={self.validation} must lie between 0 and {len(train) - 1}, and leave some"
            )
        last = len(train) - self.validation
        return {"train": train[:last], "validation": train[last:], "test": test}

    def read(self, split: Split, path: str | None) -> list[Problem]:
        """Problems of a file, or of the hub where none is named. Raises ValueError for an empty one."""
        source = f"task.{split}={path or HUB}"
        rows = (
            from_hub(f"task.{split}=null", HUB, "main", split)
            if path is None
            else from_file(source, Path(path).expanduser(), f"null to read {HUB} from the hub")
        )
        problems = [self.problem(f"{place} of {source}", row) for place, row in rows]
        if not problems:
            raise ValueError(f"{source} is empty; it must hold at least one problem")
        return problems

    def problem(self, place: str, row: Any) -> Problem:
        """A row's, with the number after #### as its reference.

        Raises ValueError, with the place, for a row without one.
        """
        if not isinstance(row, Mapping):
            raise ValueError(f"{place} is {row!r}; it must be a record with the columns {' and '.join(COLUMNS)}")
        record = cast(Mapping[str, Any], row)
        missing = [column for column in COLUMNS if record.get(column) is None]
        if missing:
            raise ValueError(f"{place} lacks {' and '.join(missing)}; its columns are {', '.join(record)}")
        question, answer = (str(record[column]) for column in COLUMNS)
        gold = GOLD.search(answer)
        if not gold:
            raise ValueError(f"{place} has an answer that ends in {answer[-40:]!r}, where #### and a number must stand")
        return Problem(fill(self.template, question), gold[1].replace(",", ""), columns=record)
