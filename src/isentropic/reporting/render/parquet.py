"""A report for other programs: a row per run, and every curve."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from isentropic.reporting.analysis.scores import final, measured
from isentropic.reporting.render.report import Report
from isentropic.runs.run import Run
from isentropic.runs.settings import Scalar

VERDICT = ("start", "end", "collapse", "in_band", "in_band_late", "drift", "chance", "swing", "period")
TOGETHER = 500  # runs in memory at once
PLACE = re.compile(r"(?<![\w./:~])(?:/[^\s/,;:'\"]+)+/(?=[^\s/,;:'\"])")  # folders of a whole path, but not of a URL


def runs(report: Report, folder: Path) -> None:
    """And as CSV, for those who read no parquet."""
    table = _runs(report)
    pq.write_table(table, folder / "runs.parquet")
    csv.write_csv(table, folder / "runs.csv")


def _runs(report: Report) -> Any:
    """Settings stand under `config.<key>`, final scores under `final.<metric>`, the verdict under `entropy.<part>`.

    A run is named by its place below what all share, and files by their names: rows hold no folders of a machine.
    """
    groups = {run.folder: group.label for group in report.groups for run in group.runs}
    kinds: dict[Path, list[str]] = {}
    for one in report.odd:
        kinds.setdefault(one.run.folder, []).append(f"{one.kind}: {one.sentence}")
    runs = report.runs
    keys = sorted({key for run in runs for key in run.config if not key.startswith("paths.")})
    columns: dict[str, list[Any]] = {
        "run": [report.names[run.folder] for run in runs],
        "group": [groups[run.folder] for run in runs],
        "seed": [run.seed for run in runs],
        "status": [run.status for run in runs],
        "error": [anywhere(run.error) for run in runs],
        "rollouts": [run.rollouts for run in runs],
        "included": [run.folder in report.included for run in runs],
        "odd": [anywhere("; ".join(kinds.get(run.folder, []))) for run in runs],
    }
    columns |= {f"final.{metric}": [final(run, metric) for run in runs] for metric in measured(runs)}
    judged = [report.verdicts[run.folder] for run in runs]
    columns |= {f"entropy.{part}": [getattr(verdict, part) for verdict in judged] for part in VERDICT}
    columns["entropy.words"] = [verdict.words for verdict in judged]
    columns |= {f"config.{key}": [anywhere(run.config.get(key)) for run in runs] for key in keys}
    return pa.table({name: _array(values) for name, values in columns.items()})


def anywhere(value: Scalar) -> Scalar:
    """Text without the folders of whole paths: their files' names stay."""
    return PLACE.sub("", value) if isinstance(value, str) else value


def _array(values: list[Any]) -> Any:
    """A column has one type: where settings have several, their text."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= {int, float} and float in kinds:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array(values if len(kinds) <= 1 else [None if value is None else str(value) for value in values])


def curves(report: Report, folder: Path) -> None:
    """A row per run and rollout, a column per metric."""
    metrics = sorted({name for run in report.runs for name in run.metrics})
    schema = pa.schema([("run", pa.string()), ("step", pa.int64()), *((name, pa.float32()) for name in metrics)])
    with pq.ParquetWriter(folder / "curves.parquet", schema) as writer:
        for start in range(0, len(report.runs), TOGETHER):
            writer.write_table(_rows(report, report.runs[start : start + TOGETHER], metrics, schema))


def _rows(report: Report, runs: Sequence[Run], metrics: list[str], schema: Any) -> Any:
    steps = [_steps(run) for run in runs]
    names = np.repeat([report.names[run.folder] for run in runs], [len(some) for some in steps])
    columns = [_column(runs, steps, metric) for metric in metrics]
    along = np.concatenate(steps) if steps else np.array([], np.int64)
    arrays = [pa.array(names, pa.string()), pa.array(along), *columns]
    return pa.Table.from_arrays(arrays, schema=schema)


def _steps(run: Run) -> np.ndarray:
    each = {id(series.steps): series.steps for series in run.metrics.values()}
    return np.unique(np.concatenate(list(each.values()))) if each else np.array([], np.int64)


def _column(runs: Sequence[Run], steps: list[np.ndarray], metric: str) -> Any:
    parts: list[np.ndarray] = []
    for run, along in zip(runs, steps, strict=True):
        part, series = np.full(len(along), np.nan, np.float32), run.metrics.get(metric)
        if series is not None:
            part[np.searchsorted(along, series.steps)] = series.values
        parts.append(part)
    whole = np.concatenate(parts)
    return pa.array(whole, pa.float32(), mask=np.isnan(whole))
