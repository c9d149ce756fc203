"""`report.html`: the report as one page that opens from disk, with all its pictures, and answers token by token."""

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from isentropic.reporting.analysis.axes import AXES
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.smoothing import smooth
from isentropic.reporting.render import html
from isentropic.reporting.render.curve_figures import Picture
from isentropic.reporting.render.report import Report
from isentropic.reporting.render.score_figures import HEADLINE
from isentropic.reporting.render.sentences import cautions, headline, summary
from isentropic.reporting.render.tables import LONGEST, Table, tables
from isentropic.reporting.render.tokens import payload, sheets
from isentropic.runs.files import SAMPLES
from isentropic.runs.run import Run

SHEETS = 12  # groups whose answers are on the page
DRAWN = 400_000  # bytes of an inlined picture, at most
SPARK = 60  # points of a run's entropy in a table


@dataclass(frozen=True)
class Judged:
    """A run's entropy, as a row: numbers to sort by, words to read."""

    run: str
    link: str
    group: str
    line: str
    level: str
    collapse: str
    band: str
    drift: str
    swing: str
    words: str


def write(report: Report, out: Path) -> Path:
    """Into the folder `out`, beside figures/, whose pictures it takes in."""
    answers = sheets([(f"{label}, seed {run.seed}", run.folder) for label, run in _first_runs(report)])
    there = any(sheet.answers for sheet in answers)
    told = {table.name: table for table in tables(report)}
    return html.write(
        "report.html",
        out / "report.html",
        ["report.js", *(["tokens.js"] if there else [])],
        ["base.css", "report.css", *(["tokens.css"] if there else [])],
        title=report.title,
        report=report,
        counts=_counts(report),
        headline=headline(report),
        summary=summary(report),
        cautions=cautions(report),
        odd=told.pop("odd", None),
        runs=_without_entropy(told.pop("runs", None)),
        scores=told.pop("scores", None),
        others=list(told.values()),
        links={report.names[run.folder]: _link(run.folder, out) for run in report.runs},
        ends=_pictures([one for one in report.pictures if one.metric and not one.axis], out),
        first=_pictures([one for one in report.pictures if one.name == HEADLINE], out),
        overview=_pictures([one for one in report.pictures if not one.metric and one.name != HEADLINE], out),
        curves={AXES[axis]: _pictures([one for one in report.pictures if one.axis == axis], out) for axis in AXES},
        judged=_judged(report, out),
        tokens=payload(answers, "Run") if there else None,
    )


def _first_runs(report: Report) -> list[tuple[str, Run]]:
    found: list[tuple[str, Run]] = []
    for group in report.shown[:SHEETS]:
        runs = [run for run in group.runs if (run.folder / SAMPLES).is_file()]
        runs = [run for run in runs if run.folder in report.included] or runs
        found += [(group.label, runs[0])] if runs else []
    return found


def _counts(report: Report) -> list[str]:
    """Facts of the head line."""
    states = [run.status for run in report.runs]
    listed = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states)))
    seeds = sorted({sum(run.folder in report.included for run in group.runs) for group in report.groups})
    span = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return [
        f"{_plural(len(report.runs), 'run')}: {listed}",
        _plural(len(report.groups), "group"),
        f"{span} seed{'s' if span != '1' else ''} each",
    ]


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"


def _without_entropy(table: Table | None) -> Table | None:
    """The verdicts have a table of their own here."""
    if table is None or table.head[-1] != "entropy":
        return table
    return Table(table.name, table.title, "Every run by itself.", table.head[:-1], [row[:-1] for row in table.rows])


def _judged(report: Report, out: Path) -> list[Judged]:
    pairs = [(group, run) for group in report.shown for run in group.runs if report.verdicts[run.folder].start]
    top = max((float(run.metrics["entropy/mean"].values.max()) for _, run in pairs[:LONGEST]), default=0.0)
    return [_row(report, group, run, top, out) for group, run in pairs[:LONGEST]]


def _row(report: Report, group: Group, run: Run, top: float, out: Path) -> Judged:
    seen = report.verdicts[run.folder]
    return Judged(
        run=report.names[run.folder],
        link=_link(run.folder, out),
        group=group.label,
        line=spark(run, top),
        level=f"{seen.start:.3f} → {seen.end:.3f}" if seen.end is not None else "",
        collapse="" if seen.collapse is None else str(seen.collapse),
        band="" if seen.in_band_late is None else f"{seen.in_band_late:.0%}",
        drift="" if seen.drift is None else f"{seen.drift:+.4f}",
        swing="" if seen.swing is None else f"{seen.swing:.4f}" + _period(seen.period),
        words=seen.words,
    )


def spark(run: Run, top: float) -> str:
    """A run's entropy as the points of a line in a box of 100 by 24; empty where it was not logged."""
    series = run.metrics.get("entropy/mean")
    if series is None or len(series.steps) < 2 or not top > 0:
        return ""
    steps = np.linspace(series.steps[0], series.steps[-1], min(SPARK, len(series.steps)))
    values = np.interp(steps, series.steps, smooth(series.values))
    across, up = 100 * (steps - steps[0]) / (steps[-1] - steps[0]), 24 - 23 * np.clip(values / top, 0, 1)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across.tolist(), up.tolist(), strict=True))


def _period(rollouts: float | None) -> str:
    return "" if rollouts is None else f", period {rollouts:.0f}"


def _link(folder: Path, out: Path) -> str:
    """Relative, so that the folder can be moved or sent with its runs."""
    return quote(os.path.relpath(folder.absolute(), out.absolute())) + "/"


def _pictures(pictures: list[Picture], out: Path) -> list[tuple[Picture, str | None]]:
    """Each as a data URL; none where it is not there or too large."""
    found: list[tuple[Picture, str | None]] = []
    for one in pictures:
        file = out / "figures" / f"{one.name}.svg"
        fits = file.is_file() and file.stat().st_size <= DRAWN
        found.append(
            (one, f"data:image/svg+xml;base64,{base64.b64encode(file.read_bytes()).decode()}" if fits else None)
        )
    return found
