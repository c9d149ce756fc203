"""The `metrics.csv` of a run, however it was cut short: half-written, resumed in parts, of a header that changed."""

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NAME = "metrics.csv"
EMPTY = 9e307  # stands for a cell without a value while a file is read; no metric comes near it
RENAMED = {"policy/entropy": "entropy/mean"}  # what older runs called it

# All that a report tells of; a run logs more, and ten thousand runs must fit in memory.
KEPT = re.compile(
    r"eval/.+|entropy/mean|control/(target|up|down)|rollout/(reward|correct|length|truncated|reflection|tries|filled)"
    r"|credit/(?!.*_(positive|negative)_(surprising|expected)$).+|clipping/clipped_\w+"
    r"|policy/(loss|grad_norm|skipped|empty)|sampler/(logp_gap|canary_gap|masked)"
    r"|throughput/(tokens|seconds|step_seconds|tokens_per_second)"
)
KNOWN: dict[str, bool] = {}  # names that were matched before
# Of the others, NaN is a mean over nothing.
NEVER_NAN = re.compile(r"eval/.+|entropy/mean|rollout/(reward|length)|policy/(loss|grad_norm)")


@dataclass(frozen=True)
class Series:
    """Finite values of one metric, by rollout. Metrics logged together share one array of steps."""

    steps: np.ndarray
    values: np.ndarray

    @property
    def last(self) -> float:
        return float(self.values[-1])


@dataclass(frozen=True)
class Log:
    metrics: dict[str, Series]
    broken: dict[str, int]  # metrics that can never rightly be NaN or infinite → the first rollout at which they were
    remarks: list[str]  # what was wrong with the files, a sentence each


def parts(folder: Path, names: Iterable[str]) -> list[Path]:
    """Oldest first: `metrics.1.csv`, `metrics.2.csv` … are set aside when a run goes on."""
    numbered = {int(m[1]): name for name in names if (m := re.fullmatch(r"metrics\.(\d+)\.csv", name))}
    return [folder / numbered[i] for i in sorted(numbered)] + ([folder / NAME] if NAME in names else [])


def read(files: list[Path]) -> Log:
    """Where a rollout stands in several lines or files, what was written last counts."""
    remarks: list[str] = []
    tables = [table for file in files for table in _tables(file, remarks)]
    if not tables:
        return Log({}, {}, remarks)
    if len(tables) == 1:
        names, cells = tables[0]
    else:
        names = sorted({name for table in tables for name in table[0]})
        cells = np.concatenate([_aligned(table, names) for table in tables])
    return _series(names, cells, remarks)


def _tables(file: Path, remarks: list[str]) -> list[tuple[list[str], np.ndarray]]:
    """Blocks of equal header; nearly always one, and then all of it is read at once."""
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        remarks.append(f"{file.name} could not be read ({error.strerror})")
        return []
    head, _, body = text.partition("\n")
    names = head.split(",")
    if "step" not in names:
        remarks.append(f"{file.name} is empty" if not head else f"{file.name} has no column step, so it was not read")
        return []
    if body and not body.endswith("\n"):
        body = body[: body.rfind("\n") + 1]
        remarks.append(f"the last line of {file.name} was cut off and left out")
    cells = _fast(body, len(names))
    return [(names, cells)] if cells is not None else _slow(f"{head}\n{body}", file, remarks)


def _fast(body: str, width: int) -> np.ndarray | None:
    """None unless every cell is a number or empty and every line as long as the header."""
    rows = body.count("\n")
    if body.count(",") != rows * (width - 1):
        return None
    full = "," + body.replace("\n", ",")
    if ",," in full:
        full = full.replace(",,", f",{EMPTY},").replace(",,", f",{EMPTY},")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of text that is no number, which the size tells
        try:
            cells = np.fromstring(full.strip(","), sep=",")
        except ValueError:
            return None
    return cells.reshape(rows, width) if cells.size == rows * width else None


def _slow(text: str, file: Path, remarks: list[str]) -> list[tuple[list[str], np.ndarray]]:
    tables: list[tuple[list[str], list[list[float]]]] = []
    dropped = 0
    for line in csv.reader(io.StringIO(text.replace("\0", ""))):
        if "step" in line:
            tables.append((line, []))
        elif line and len(line) == len(tables[-1][0]):
            try:
                tables[-1][1].append([float(cell) if cell else EMPTY for cell in line])
            except ValueError:
                dropped += 1
        else:
            dropped += bool(line)
    if len(tables) > 1:
        remarks.append(f"the header of {file.name} changes midway; all its parts were read")
    if dropped:
        lines = "1 line" if dropped == 1 else f"{dropped} lines"
        remarks.append(f"{lines} of {file.name} left out: no numbers, or not as many as the header has names")
    return [(names, np.array(rows).reshape(len(rows), len(names))) for names, rows in tables]


def _aligned(table: tuple[list[str], np.ndarray], names: list[str]) -> np.ndarray:
    cells = np.full((len(table[1]), len(names)), EMPTY)
    cells[:, [names.index(name) for name in table[0]]] = table[1]
    return cells


def _series(names: list[str], cells: np.ndarray, remarks: list[str]) -> Log:
    wanted = {i: RENAMED.get(name, name) for i, name in enumerate(names) if _kept(name, names)}
    columns = cells[:, list(wanted)].T.copy()
    steps = cells[:, names.index("step")]
    there = (columns != EMPTY) & (steps != EMPTY) & np.isfinite(steps)
    finite = np.isfinite(columns)
    metrics: dict[str, Series] = {}
    broken: dict[str, int] = {}
    rows_of: dict[bytes, np.ndarray] = {}
    places: dict[bytes, np.ndarray] = {}
    for name, column, logged, sound in zip(wanted.values(), columns, there, finite, strict=True):
        rows = _remembered(rows_of, logged, lambda which=logged: _last_of_each(steps, which))
        if not sound.all() and not (fine := sound[rows]).all():
            if NEVER_NAN.fullmatch(name):
                broken[name] = int(steps[rows][~fine][0])
            rows = rows[fine]
        if len(rows):
            along = _remembered(places, rows, lambda which=rows: steps[which].astype(np.int64))
            metrics[name] = Series(along, column[rows])
    if not metrics and not broken:
        remarks.append("no metrics were logged yet")
    return Log(metrics, broken, remarks)


def _kept(name: str, names: list[str]) -> bool:
    known = RENAMED.get(name, name)
    if known not in KNOWN:
        KNOWN[known] = KEPT.fullmatch(known) is not None
    return KNOWN[known] and (known == name or known not in names)


def _remembered(found: dict[bytes, np.ndarray], key: np.ndarray, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Metrics logged together have the same rows."""
    text = key.tobytes()
    if text not in found:
        found[text] = make()
    return found[text]


def _last_of_each(steps: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Rows in the order of their steps, of equal steps the last."""
    rows = np.flatnonzero(there)
    along = steps[rows]
    if (along[1:] > along[:-1]).all():
        return rows
    order = np.argsort(along, kind="stable")
    rows, along = rows[order], along[order]
    return rows[np.append(along[1:] != along[:-1], True)] if len(rows) else rows
