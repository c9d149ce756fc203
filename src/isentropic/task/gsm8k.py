"""GSM8K: grade-school word problems with a number as the answer, from files or the hub. arXiv:2110.14168"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from isentropic.task import Problem, Split, Task, Verdict
from isentropic.task.answers import final_answer
from isentropic.task.prompts import check_template, fill
from isentropic.task.verifier import Verifier

HUB = "openai/gsm8k"
COLUMNS = ("question", "answer")
GOLD = re.compile(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$")


@dataclass(frozen=True)
class Gsm8k(Task):
    """References are the numbers after ####, as text. Raises ValueError for data that cannot be read or checked."""

    train: str | None  # a .jsonl, .json or .csv file with the columns question and answer; null reads the hub
    test: str | None
    validation: int  # the last so many problems of train, which training then never sees
    template: str  # the prompt, with {question} for the question
    marker: str  # the rest of the line after the last of these is the answer, unless one is boxed
    workers: int  # processes that verify answers
    timeout: float  # seconds one answer may take
    memory: float  # GiB one process may use

    def __post_init__(self) -> None:
        check_template(self.template)
        train, test = ({problem.prompt for problem in self.splits[split]} for split in ("train", "test"))
        shared = train & test
        if shared:
            raise ValueError(
                f"task.train={self.train} and task.test={self.test} share {len(shared)} questions; remove them from one"
            )
        assert self.verifier

    def problems(self, split: Split) -> Sequence[Problem]:
        """In the order of the file. Raises ValueError for a validation split that was not asked for."""
        if split == "validation" and not self.validation:
            raise ValueError("task.validation=0 holds no training problem out to validate on; 500 would do")
        return self.splits[split]

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        answers = [final_answer(text, self.marker) for text in texts]
        pairs = list(zip(problems, answers, strict=True))
        verdicts = iter(self.verifier([(problem.reference, answer) for problem, answer in pairs if answer]))
        return [next(verdicts) if answer else Verdict(0.0, False, "unparseable") for answer in answers]

    def close(self) -> None:
        self.verifier.close()

    @cached_property
    def verifier(self) -> Verifier:
        return Verifier("isentropic.task.equality:judge", self.workers, self.timeout, self.memory)

    @cached_property
    def splits(self) -> dict[Split, list[Problem]]:
        train, test = self.read("train", self.train), self.read("test", self.test)
        if not 0 <= self.validation < len(train):
            raise ValueError(
                f"task.validation={self.validation} must lie between 0 and {len(train) - 1}, and leave some"
            )
        last = len(train) - self.validation
        return {"train": train[:last], "validation": train[last:], "test": test}

    def read(self, split: Split, path: str | None) -> list[Problem]:
        source = f"task.{split}={path or HUB}"
        rows = from_hub(split) if path is None else from_file(source, Path(path).expanduser())
        problems = [self.problem(f"{place} of {source}", row) for place, row in rows]
        if not problems:
            raise ValueError(f"{source} is empty; it must hold at least one problem")
        return problems

    def problem(self, place: str, row: Any) -> Problem:
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
        return Problem(fill(self.template, question), gold[1].replace(",", ""))


def from_file(source: str, path: Path) -> Iterator[tuple[str, Any]]:
    """Records, each with where it stands."""
    if not path.is_file():
        raise ValueError(f"{source} is not a file; give the path of one, or null to read {HUB} from the hub")
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            if path.suffix == ".jsonl":
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield f"line {number}", json.loads(line)
            elif path.suffix == ".csv":
                records = csv.DictReader(lines)
                for record in records:
                    yield f"line {records.line_num}", record
            elif path.suffix == ".json":
                for number, record in enumerate(json.load(lines), 1):
                    yield f"item {number}", record
            else:
                raise ValueError(f"{source} does not end in .jsonl, .json or .csv; convert it to one of these")
    except (json.JSONDecodeError, csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{source} is not {path.suffix[1:]} in UTF-8: {error}") from error


def from_hub(split: Split) -> Iterator[tuple[str, Any]]:
    try:
        from datasets import load_dataset  # pyright: ignore
    except ImportError as error:
        raise ValueError(
            f"task.{split}=null reads {HUB} from the hub, which needs the package datasets; install it or give a file"
        ) from error
    try:
        records = load_dataset(HUB, "main", split=split)  # pyright: ignore
    except Exception as error:  # whatever the network, the cache or the library comes up with
        reason = str(error).partition("\n")[0]
        raise ValueError(f"task.{split}=null reads {HUB} from the hub, which failed ({reason}); give a file") from error
    for number, record in enumerate(records, 1):  # pyright: ignore
        yield f"row {number}", record
