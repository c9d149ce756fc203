"""Problems of one's own: any file, folder or set on the hub, by the names of its columns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Literal

from isentropic.task import Message, Problem, Split, Verdict
from isentropic.task.answers import after_marker, last_box
from isentropic.task.chats import asked, plain
from isentropic.task.dataset_files import column, from_place
from isentropic.task.endless import split_of
from isentropic.task.golds import without_bad_answers
from isentropic.task.judge_pool import JudgePool
from isentropic.task.math_task import MathTask
from isentropic.task.overlap import Near, Overlap, overlap, told
from isentropic.task.prompts import check_template, fill
from isentropic.task.strictness import check_strictness
from isentropic.tools.cage import STRICT, Cage

SPLITS: dict[str, Split] = {
    "train": "train", "training": "train", "test": "test", "validation": "validation", "valid": "validation",
    "val": "validation", "dev": "validation", "eval": "validation",
}  # fmt: skip
MOST = 10_000_000  # places of an epoch of mixed sets
OURS = "isentropic.task.math_judge:judge"
TRIED = 4  # golds that a judge of one's own is tried on
JUDGE = re.compile(r"[\w.]+:\w+")


@dataclass(frozen=True)
class Row:
    """A problem as its row has it."""

    question: str
    before: tuple[Message, ...]
    answer: str | None
    split: Split | None  # by its own column
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class Dataset(MathTask):
    """References are answers as text. Raises ValueError, with the row, for data that cannot be used.

    A training question is taken once, and not at all if a test problem asks it too, whatever its spaces and signs.
    """

    path: str | list[str]  # a .jsonl, .json, .csv or .parquet file, a folder of them, a name on the hub; or several
    weights: list[float] | None  # of each of several, how often it is asked
    test: str | list[str] | None  # the same for test problems; null holds some of path out
    subset: str | None  # of a set on the hub
    split: str  # of a set on the hub, for path
    test_split: str  # the same for test
    split_column: str | None  # says of each row whether it is train, validation or test
    held_out: float  # share of questions that training never sees: half validation, half test
    question: str  # the column of a text or chat; columns may be nested: extra_info.question
    answer: str | None  # the column of the answer, or of a solution with it in a box or behind answer_marker
    answer_marker: str  # the answer stands after the last of these in its column; empty takes all of it
    system: str | None  # the column of a system message
    longest: int | None  # characters of a training question, beyond which it is left out
    template: str  # the prompt, with {question} for the question
    marker: str  # the rest of the line after the last of these is the model's answer, unless one is boxed
    bad_answers: Literal["drop", "refuse"]  # out of training, what is not judged right itself
    strictness: str  # what counts as equal: docs/equality.md
    judge: str  # module:function of (answer of the data, model's text, marker) to (reward, correct, status)
    workers: int  # processes that judge answers
    timeout: float  # CPU seconds one answer may take
    memory: float  # GiB one answer may take
    cage: Cage = STRICT  # what this machine must have to hold what a model wrote
    drop_near: bool = False  # also out of training, what shares half of its runs of 8 words with a test problem

    def __post_init__(self) -> None:
        check_template(self.template)
        check_strictness(self.strictness)
        if not JUDGE.fullmatch(self.judge):
            raise ValueError(f"task.judge={self.judge} is not module:function, as isentropic.task.math_judge:judge is")
        if not 0 <= self.held_out < 1:
            raise ValueError(f"task.held_out={self.held_out} is no share; it must be at least 0 and below 1")
        if self.longest is not None and self.longest < 1:
            raise ValueError(f"task.longest={self.longest} leaves every question out; it must be at least 1, or null")
        if isinstance(self.path, list) and self.weights is not None and len(self.weights) != len(self.path):
            raise ValueError(f"task.weights has {len(self.weights)} numbers for {len(self.path)} sets")
        if self.weights is not None and (isinstance(self.path, str) or not all(0 < one < inf for one in self.weights)):
            raise ValueError(
                f"task.weights={self.weights} must be finite and above 0, one for each of a list of task.path=[...]"
            )
        assert self.splits and self.judges

    @property
    def verifies(self) -> bool:
        return self.answer is not None

    def markers(self) -> list[str]:
        return [self.marker] if self.answer is not None else []

    def problems(self, split: Split) -> Sequence[Problem]:
        """Raises ValueError for a split that is empty."""
        if not self.splits[split]:
            raise ValueError(
                f"task.path={self.path} leaves no {split} problem; raise task.held_out={self.held_out}"
                + (", or give task.test" if split == "test" else "")
            )
        return self.splits[split]

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """Where the data has no answers, nothing is right."""
        if self.answer is None:
            return [Verdict(0.0, False, "wrong") for _ in texts]
        pairs = zip(problems, texts, strict=True)
        further = (self.strictness,) if self.judge == OURS else ()
        return self.judges([(problem.reference, text, self.marker, *further) for problem, text in pairs])

    def check(self) -> None:
        if self.answer is None:
            return
        if self.judge != OURS:
            self.check_judge()
        without_bad_answers(self, self.splits, self.bad_answers)

    def check_judge(self) -> None:
        """Raises ValueError for a judge of one's own that cannot be loaded, or gives no verdict on a few golds."""
        some = self.splits["train"][:TRIED]
        try:
            verdicts = self.verify(some, [self.written(str(problem.reference)) for problem in some])
        except RuntimeError as error:
            raise ValueError(f"task.judge={self.judge} cannot be loaded, as the message above says") from error
        if all(verdict.status == "crash" for verdict in verdicts):
            raise ValueError(
                f"task.judge={self.judge} raises, or gives no (reward, correct, status), for {len(some)} answers of "
                "the data itself; it takes the answer of the data, the model's text and task.marker"
            )

    @cached_property
    def judges(self) -> JudgePool:
        return JudgePool(self.judge, self.workers, self.timeout, self.memory, self.cage)

    @cached_property
    def splits(self) -> dict[Split, list[Problem]]:
        """All problems, read once.

        Raises ValueError for rows that lack a column, and where nothing is left to learn from.
        """
        sets = [list(self.rows(path, self.split, "path")) for path in listed(self.path)]
        tests = [row for path in listed(self.test) for row in self.rows(path, self.test_split, "test")]
        held: dict[Split, list[Row]] = {"train": [], "validation": [], "test": tests}
        trained = [[row for row in rows if self.place(row, held) == "train"] for rows in sets]
        tested, seen = overlap([row.question for row in held["test"]], self.drop_near), set[str]()
        fresh = [[row for row in rows if self.is_fresh(row, tested, seen)] for rows in trained]
        if not any(fresh):
            raise ValueError(
                f"task.path={self.path} leaves nothing to learn from: {sum(map(len, sets))} rows, of which "
                f"{sum(map(len, trained))} are not held out, and none is new and within task.longest={self.longest}"
            )
        return {
            "train": mixed([[self.problem(row) for row in rows] for rows in fresh], self.weights),
            "validation": [self.problem(row) for row in held["validation"]],
            "test": [self.problem(row) for row in held["test"]],
        }

    def place(self, row: Row, held: dict[Split, list[Row]]) -> Split:
        """The split of a row of path; what training does not see is put where it belongs."""
        if self.split_column is not None:
            assert row.split is not None
            split = row.split
        else:
            split = split_of(row.question, self.held_out)
            split = "validation" if split == "test" and self.test is not None else split
        if split != "train":
            held[split].append(row)
        return split

    def is_fresh(self, row: Row, tested: Sequence[Overlap | Near], seen: set[str]) -> bool:
        """Whether a question is in no test, not seen before, and short enough; it counts as seen from then on."""
        if row.question in seen or len(row.question) > (self.longest or len(row.question)):
            return False
        if any(told(row.question, row.before) in one for one in tested):
            return False
        seen.add(row.question)
        return True

    def rows(self, path: str, split: str, key: str) -> Iterator[Row]:
        """Rows of a file, folder or set on the hub.

        Raises ValueError where there are none, or one is not as it should be.
        """
        source = f"task.{key}={path}"
        empty = True
        for place, record in from_place(source, path, self.subset, split):
            empty = False
            yield self.row(f"{place} of {source}", record)
        if empty:
            raise ValueError(f"{source} is empty; it must hold at least one problem")

    def row(self, place: str, record: Any) -> Row:
        """One record by the columns of the settings. Raises ValueError, with its place, where it lacks one."""
        question, before = asked(column(record, self.question, place, "task.question"), place)
        if self.system is not None:
            if any(message["role"] == "system" for message in before):
                raise ValueError(f"{place} brings a system message of its own, beside task.system={self.system}")
            before = ({"role": "system", "content": str(column(record, self.system, place, "task.system"))}, *before)
        split: Split | None = None
        if self.split_column is not None:
            name = str(column(record, self.split_column, place, "task.split_column"))
            if name.lower() not in SPLITS:
                raise ValueError(f"{place} has {name!r} in {self.split_column}, which is none of {', '.join(SPLITS)}")
            split = SPLITS[name.lower()]
        return Row(question, before, self.answer_of(record, place), split, record)

    def answer_of(self, record: Any, place: str) -> str | None:
        """The gold: the last box or what follows the marker, None without a column. Raises ValueError for neither."""
        if self.answer is None:
            return None
        text = plain(column(record, self.answer, place, "task.answer"), place)
        gold = last_box(text) or after_marker(text, self.answer_marker)
        if not text.strip():
            raise ValueError(f"{place} has an empty {self.answer}, which is task.answer")
        if not gold:
            raise ValueError(f"{place} has no answer after {self.answer_marker!r} in {text[-40:]!r}")
        return gold

    def problem(self, row: Row) -> Problem:
        """The question in the template; all columns go along, for rewards."""
        return Problem(fill(self.template, row.question), row.answer, row.before, row.columns)


def listed(paths: str | list[str] | None) -> list[str]:
    """None, one path or several, as a list."""
    return [] if paths is None else [paths] if isinstance(paths, str) else paths


def mixed(sets: list[list[Problem]], weights: list[float] | None) -> list[Problem]:
    """In turn, each set as often as its weight says: one that is small for its weight comes again and again.

    Raises ValueError for weights that make an epoch, in which every problem comes at least once, too long.
    """
    if weights is None:
        return [problem for problems in sets for problem in problems]
    share = [weight / sum(weights) for weight in weights]
    whole = max(len(problems) / part for problems, part in zip(sets, share, strict=True))
    if whole > MOST:
        raise ValueError(f"task.weights={weights} are so far apart that an epoch is {whole:.0f} problems")
    places = [
        ((turn + 0.5) / count, number, problems[turn % len(problems)])
        for number, (problems, part) in enumerate(zip(sets, share, strict=True))
        if problems
        for count in [max(len(problems), round(whole * part))]
        for turn in range(count)
    ]
    return [problem for _, _, problem in sorted(places, key=lambda one: one[:2])]
