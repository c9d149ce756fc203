"""Which test problems has training seen, and what is the score without them?

Exact is equal but for spaces and signs; wrapped is the whole problem within a longer one; near is half of its runs of
8 words in one training problem. Answers are not compared, and what was translated or reworded is not found.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from isentropic.evaluation.scores import RESAMPLES
from isentropic.evaluation.sets import Sheet
from isentropic.runs import files
from isentropic.task.overlap import Near, Overlap, signless

FILE = "contamination.json"
LIMITS = "Answers are not compared; translated or reworded copies are not found."
KINDS = ("exact", "wrapped", "near")


@dataclass(frozen=True)
class Seen:
    """Rows of one test set that training holds, by kind; a row may be of several kinds."""

    problems: int  # rows of the set
    exact: list[int]
    wrapped: list[int]
    near: list[int]

    @property
    def any(self) -> list[int]:
        """Rows that were found in any way, in order."""
        return sorted({*self.exact, *self.wrapped, *self.near})


@dataclass(frozen=True)
class Score:
    """avg@k of all problems, and of those that training has not seen. None where there are none of them."""

    all: float
    clean: float | None  # of those not seen
    difference: float | None  # all minus clean
    low: float | None  # of the 95 % interval of the difference
    high: float | None  # by bootstrap over problems


def seen(training: Iterable[str], tests: Mapping[str, Sequence[str]]) -> dict[str, Seen]:
    """By test set. In one pass over training, in time that grows with its text."""
    near, equal, within, close = Near(*tests.values()), set[str](), set[str](), set[int]()
    overlap = Overlap(question for questions in tests.values() for question in questions)
    for question in training:
        close |= near.found(question)
        for found in overlap.found(question):
            (equal if found == signless(question) else within).add(found)
    made: dict[str, Seen] = {}
    start = 0
    for name, questions in tests.items():
        texts = [signless(question) for question in questions]
        exact, wrapped = ([row for row, text in enumerate(texts) if text in found] for found in (equal, within))
        made[name] = Seen(len(texts), exact, wrapped, [row for row in range(len(texts)) if start + row in close])
        start += len(texts)
    return made


def without(sheet: Sheet, rows: Sequence[int]) -> Score:
    """`rows` are places in the sheet."""
    share = sheet.right.double() / sheet.k
    clean = torch.ones(len(share), dtype=torch.bool)
    clean[list(rows)] = False
    whole = float(share.mean())
    if not clean.any():
        return Score(whole, None, None, None, None)
    change = whole - float(share[clean].mean())
    if clean.all() or len(share) < 2:
        return Score(whole, float(share[clean].mean()), change, None, None)
    draw = torch.Generator().manual_seed(0)
    picks = torch.randint(len(share), (RESAMPLES, len(share)), generator=draw)
    kept = clean[picks]
    changes = share[picks].mean(-1) - (share[picks] * kept).sum(-1) / kept.sum(-1)  # NaN where none is clean
    low, high = changes[~changes.isnan()].quantile(torch.tensor([0.025, 0.975], dtype=changes.dtype)).tolist()
    return Score(whole, float(share[clean].mean()), change, low, high)


def report(found: Mapping[str, Seen], sheets: Sequence[Sheet] = ()) -> dict[str, object]:
    """For JSON: rows by kind, and scores with and without them where there are answers."""
    by_set = {sheet.set: sheet for sheet in sheets}
    return {
        "limits": LIMITS,
        "sets": {
            name: {**asdict(one), "any": one.any}
            | ({"score": asdict(without(by_set[name], one.any))} if name in by_set else {})
            for name, one in found.items()
        },
    }


def write_contamination(folder: Path, training: Iterable[str], names: Sequence[str], sheets: Sequence[Sheet]) -> None:
    """contamination.json of an evaluation whose subject has learnt from training questions, of sets of these names."""
    found = seen(training, {sheet.set: [one.question for one in sheet.problems] for sheet in sheets})
    made = {"train": list(names)} | report(found, sheets)
    files.write_whole(folder / FILE, json.dumps(made, indent=1, allow_nan=False) + "\n")


def lines(found: Mapping[str, Seen], scores: Mapping[str, Score]) -> list[str]:
    """A Markdown table: of each set how many problems are of which kind, and the score without them."""
    heads = ["set", "problems", *KINDS, "any"] + ["score", "without them", "difference"] * bool(scores)
    rows = [heads, ["---"] * len(heads)]
    for name, one in found.items():
        counts = [len(one.exact), len(one.wrapped), len(one.near), len(one.any)]
        rows.append([name, str(one.problems), *map(str, counts), *(of_score(scores[name]) if name in scores else [])])
    return [*(f"| {' | '.join(row)} |" for row in rows), "", LIMITS]


def of_score(score: Score) -> list[str]:
    """Cells: the score, that of clean problems, and the difference with its interval."""
    if score.clean is None or score.difference is None:
        return [f"{score.all:.3f}", "none is left", ""]
    ends = f" [{score.low:+.3f}, {score.high:+.3f}]" if score.low is not None and score.high is not None else ""
    return [f"{score.all:.3f}", f"{score.clean:.3f}", f"{score.difference:+.3f}{ends}"]
