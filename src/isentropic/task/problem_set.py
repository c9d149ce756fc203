"""Where a published set of problems is and how its rows are read: a file of one's own, in `paths.data`, on the hub."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from isentropic.task import Message
from isentropic.task.answers import after_marker, last_box
from isentropic.task.chats import asked, plain
from isentropic.task.dataset_files import KINDS, Placed, column, from_place, has_column

WHOLE = re.compile(r"([-+]?\d+)(?:\.0*)?")


@dataclass(frozen=True)
class Row:
    """A problem as its row has it."""

    question: str
    before: tuple[Message, ...]
    answer: str
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class ProblemSet:
    """Columns may be nested: reward_model.ground_truth. Of several names, the first that the first row has counts."""

    path: str | None  # a .jsonl, .json, .csv or .parquet file, a folder of them, or a name on the hub
    subset: str | None  # of a set on the hub
    split: str  # of a set on the hub
    question: str | list[str]  # the column of a text, or of a chat whose last message by the user it is
    answer: str | list[str]  # the column of the answer, or of a solution with the answer in a box
    marker: str  # the answer stands after the last of these in its column; empty takes all of it
    file: str | None = None  # a file or folder that is read in place of a name on the hub, where it is there
    context: str | list[str] | None = None  # the column of what is told before the question; of a list none need exist
    integers: bool = False  # write 27.0 and 025 as 27 and 25, as graders that compare texts need it
    problems: int | None = None  # how many it was published with; what is read is not compared with it

    def read(self, key: str) -> list[Row]:
        """In order. Raises ValueError, in one sentence, for a file that is not there and a row that cannot be used."""
        source, placed = self.placed(key)
        rows = list(self.rows(placed, source, key))
        if not rows:
            raise ValueError(f"{source} is empty; it must hold at least one problem")
        return rows

    def placed(self, key: str) -> tuple[str, Iterator[Placed]]:
        """What is read, as the user may set it, and its rows.

        Raises ValueError where there is neither file nor path.
        """
        own = self.path is not None and (self.path.endswith(KINDS) or Path(self.path).expanduser().exists())
        laid = None if own else self.laid(key)
        if laid is not None:
            source = f"{key}.file={laid}"
            return source, from_place(source, str(laid), None, "")
        if self.path is None:
            raise ValueError(
                f"{key}.file={self.file} is not there; set paths.data to the folder in which such sets lie"
            )
        source = f"{key}.path={self.path}"
        placed = from_place(source, self.path, self.subset, self.split)
        return source, placed if own or self.file is None else with_advice(placed, self.file)

    def published(self) -> int | None:
        """How many problems it has, where no file here would say it better."""
        own = self.path is not None and (self.path.endswith(KINDS) or Path(self.path).expanduser().exists())
        return None if own or self.laid("") else self.problems

    def laid(self, key: str) -> Path | None:
        """`file`, or one of another kind beside where it would be. Raises ValueError for a set's folder without it."""
        if self.file is None:
            return None
        file = Path(self.file).expanduser()
        found = [one for one in (file, *(file.with_suffix(kind) for kind in KINDS)) if one.exists()]
        if found:
            return found[0]
        if file.suffix and file.parent.is_dir():
            there = ", ".join(sorted(one.name for one in file.parent.iterdir())) or "nothing"
            raise ValueError(f"{key}.file={file} is not there, nor one of {', '.join(KINDS)}; its folder holds {there}")
        return None

    def rows(self, placed: Iterator[Placed], source: str, key: str) -> Iterator[Row]:
        """Rows by columns, of whose names the first that the set has is taken. ValueError for one without an answer."""
        first = next(placed, None)
        if first is None:
            return
        question = chosen(first[1], self.question) or self.question
        answer = chosen(first[1], self.answer) or self.answer
        context = self.context if isinstance(self.context, str) else chosen(first[1], self.context or [])
        for where, row in chain([first], placed):
            place = f"{where} of {source}"
            text, before = asked(column(row, question, place, f"{key}.question"), place)
            told = column(row, context, place, f"{key}.context", null=True) if context else None
            reference = plain(column(row, answer, place, f"{key}.answer"), place)
            gold = self.gold(reference)
            if not gold:
                lacks = (
                    f"no answer after {self.marker!r} in {reference[-40:]!r}"
                    if reference.strip()
                    else "an empty answer"
                )
                raise ValueError(f"{place} has {lacks}")
            yield Row(f"{told}\n{text}" if told else text, before, gold, row)

    def gold(self, text: str) -> str | None:
        """The last box, or what follows the marker; without leading zeros where the set's answers are integers."""
        answer = last_box(text) or after_marker(text, self.marker)
        whole = WHOLE.fullmatch(answer) if answer and self.integers else None
        return str(int(whole[1])) if whole else answer


def chosen(row: Any, names: str | Sequence[str]) -> str | None:
    """The first of several columns that a row has."""
    return names if isinstance(names, str) else next((name for name in names if has_column(row, name)), None)


def with_advice(placed: Iterator[Placed], file: str) -> Iterator[Placed]:
    """The same rows; a ValueError of the hub's also says which file would do."""
    try:
        yield from placed
    except ValueError as error:
        raise ValueError(f"{error}, for which {file} is looked for (paths.data)") from error
