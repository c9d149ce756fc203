"""The `metrics.csv` of a run, however it was cut short: half-written, resumed in parts, of a header that changed."""

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from isentropic.runs.files import METRICS

EMPTY = 9e307  # stands for a cell without a value while a file is read; no metric comes near it
RENAMED = {"policy/entropy": "entropy/mean"}  # what older runs called it

# All that a report tells of; a run logs more, and ten thousand runs must fit in memory.
REPORTED = re.compile(
    r"eval/.+|entropy/mean|control/(target|up|down)|rollout/(reward|correct|all_right|length|truncated|reflection|tries|filled)"
    r"|credit/(?!.*_(positive|negative)_(surprising|expected)$).+|clipping/clipped_\w+"
    r"|policy/(loss|grad_norm|skipped|empty)|sampler/(logp_gap|canary_gap|masked)"
    r"|throughput/(tokens|seconds|step_seconds|tokens_per_second)"
)
# Of the others, NaN is a mean over nothing.
NEVER_NAN = re.compile(r"eval/.+|entropy/mean|rollout/(reward|length)|policy/(loss|grad_norm)")

Table = tuple[list[str], np.ndarray]  # names and rows of cells


@dataclass(frozen=True)
class Series:
    """Finite values of one metric, by rollout. Metrics logged together share one array of steps."""

    steps: np.ndarray
    values: np.ndarray

    @property
    def last(self) -> float:
        return float(self.values[-1])


@dataclass(frozen=True)
class Metrics:
    series: dict[str, Series]
    broken: dict[str, int]  # metrics that can never rightly be NaN or infinite → the first rollout at which they were
    remarks: list[str]  # what was wrong with the files, a sentence each


def metrics_files(folder: Path, names: Iterable[str] | None = None) -> list[Path]:
    """Oldest first: `metrics.1.csv`, `metrics.2.csv` … are parts of a resumed run. `names` are the folder's files."""
    found = {file.name for file in folder.glob("metrics*.csv")} if names is None else set(names)
    numbered = {int(m[1]): name for name in found if (m := re.fullmatch(r"metrics\.(\d+)\.csv", name))}
    return [folder / numbered[i] for i in sorted(numbered)] + ([folder / METRICS] if METRICS in found else [])


def read_metrics(files: Iterable[Path], wanted: str | re.Pattern[str] = REPORTED) -> Metrics:
    """Metrics whose names match. Where a rollout stands in several lines or files, what was written last counts."""
    pattern = re.compile(wanted)
    remarks: list[str] = []
    tables = [table for file in files for table in _tables(file, remarks)]
    if not tables:
        return Metrics({}, {}, remarks)
    if len(tables) == 1:
        names, cells = tables[0]
    else:
        names = sorted({name for table in tables for name in table[0]})
        cells = np.concatenate([_aligned(table, names) for table in tables])
    return _metrics(names, cells, pattern, remarks)


def _tables(file: Path, remarks: list[str]) -> list[Table]:
    """Blocks of equal header; nearly always one. The file may be growing: only whole lines count."""
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        remarks.append(f"{file.name} could not be read ({error.strerror})")
        return []
    head, _, body = text.partition("\n")
    if "step" not in head.split(","):
        remarks.append(f"{file.name} is empty" if not head else f"{file.name} has no column step, so it was not read")
        return []
    if body and not body.endswith("\n"):
        body = body[: body.rfind("\n") + 1]
        remarks.append(f"the last line of {file.name} was cut off and left out")
    tables: list[tuple[list[str], list[list[float]]]] = []
    dropped = 0
    for line in csv.reader(f"{head}\n{body}".replace("\0", "").splitlines()):
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


def _aligned(table: Table, names: list[str]) -> np.ndarray:
    cells = np.full((len(table[1]), len(names)), EMPTY)
    cells[:, [names.index(name) for name in table[0]]] = table[1]
    return cells


def _metrics(names: list[str], cells: np.ndarray, wanted: re.Pattern[str], remarks: list[str]) -> Metrics:
    kept = {i: RENAMED.get(name, name) for i, name in enumerate(names) if _is_kept(name, names, wanted)}
    columns = cells[:, list(kept)].T.copy()
    steps = cells[:, names.index("step")]
    there = (columns != EMPTY) & (steps != EMPTY) & np.isfinite(steps)
    finite = np.isfinite(columns)
    series: dict[str, Series] = {}
    broken: dict[str, int] = {}
    rows_of: dict[bytes, np.ndarray] = {}
    steps_of: dict[bytes, np.ndarray] = {}
    for name, column, logged, sound in zip(kept.values(), columns, there, finite, strict=True):
        rows = _shared(rows_of, logged, lambda which=logged: _last_of_each(steps, which))
        if not sound.all() and not (fine := sound[rows]).all():
            if NEVER_NAN.fullmatch(name):
                broken[name] = int(steps[rows][~fine][0])
            rows = rows[fine]
        if len(rows):
            along = _shared(steps_of, rows, lambda which=rows: steps[which].astype(np.int64))
            series[name] = Series(along, column[rows])
    if not series and not broken:
        remarks.append("no metrics were logged yet")
    return Metrics(series, broken, remarks)


def _is_kept(name: str, names: list[str], wanted: re.Pattern[str]) -> bool:
    known = RENAMED.get(name, name)
    return name != "step" and _matches(wanted, known) and (known == name or known not in names)


@lru_cache(maxsize=4096)
def _matches(wanted: re.Pattern[str], name: str) -> bool:
    return wanted.fullmatch(name) is not None


def _shared(found: dict[bytes, np.ndarray], key: np.ndarray, make: Callable[[], np.ndarray]) -> np.ndarray:
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
