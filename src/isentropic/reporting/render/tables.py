"""A report in tables, of text alone: scores, differences, settings, runs, odd runs."""

from dataclasses import dataclass

from isentropic.reporting.analysis.anomalies import Odd
from isentropic.reporting.analysis.estimate import Estimate
from isentropic.reporting.analysis.groups import ABSENT, Group
from isentropic.reporting.analysis.scores import Score, final, measured, title
from isentropic.reporting.analysis.significance import chance
from isentropic.reporting.render.report import Report
from isentropic.reporting.render.score_figures import inner
from isentropic.runs.run import Run

LONGEST = 200  # rows; runs.parquet has all


@dataclass(frozen=True)
class Table:
    name: str  # of files and anchors
    title: str
    note: str  # how to read it
    head: list[str]
    rows: list[list[str]]


def tables(report: Report) -> list[Table]:
    made = [scores(report), differences(report), settings(report), runs(report), odd(report)]
    return [table for table in made if table.rows]


def scores(report: Report) -> Table:
    drawn = inner(report.scores)
    metrics = [metric for metric in dict.fromkeys(score.metric for score in report.scores) if metric not in drawn]
    cells = {(id(score.group), score.metric): score for score in report.scores}
    rows = [
        [group.label, _seeds(report, group), *(_score(cells.get((id(group), metric))) for metric in metrics)]
        for group in _ordered(report)
    ]
    note = (
        "Mean over seeds at the end of training, with its 95 % t interval from 3 seeds on. Entropy and reward are over"
        " the last tenth of a run." + (" pass@k at other k is among the pictures and in runs.csv." if drawn else "")
    )
    return _cut("scores", "Final scores", note, ["group", "seeds", *map(title, metrics)], rows)


def differences(report: Report) -> Table:
    rows = [
        [
            title(pair.metric),
            pair.ours.label,
            pair.theirs.label,
            f"{pair.difference.size}{' pairs' if pair.paired else ''}",
            _signed(pair.difference),
            chance(pair.p).removeprefix("= "),
            chance(pair.corrected).removeprefix("= "),
            f"{pair.findable:.3f}" if pair.findable == pair.findable else "",
            pair.verdict,
        ]
        for pair in report.comparisons
    ]
    note = (
        "Mean of the differences of pairs where both groups have the same seeds, else the difference of means; 95 % t"
        " interval and p of the same test, of pairs or Welch's. Corrected: after Holm's correction, by which alone"
        " anything is claimed. Findable: what these seeds would have found four times in five. Suggests: p is under"
        " 0.05, and the corrected one is not, or the score is not the primary one."
    )
    head = ["score", "group", "against", "seeds", "difference", "p", "corrected", "findable", "verdict"]
    return _cut("differences", "Differences", note, head, rows)


def settings(report: Report) -> Table:
    shown = report.shown
    rows = [[key, *(_setting(group.settings.get(key, ABSENT)) for group in shown)] for key in report.settings]
    note = "Keys of config.yaml that differ between groups; seeds, paths, loggers and callbacks aside."
    return _cut("settings", "Settings that differ", note, ["key", *(group.label for group in shown)], rows)


def runs(report: Report) -> Table:
    metrics = measured(report.runs)
    every = [(group, run) for group in _ordered(report) for run in group.runs]
    rows = [_run(report, group, run, metrics) for group, run in every[:LONGEST]]
    note = "Every run by itself, and what became of its entropy."
    head = ["run", "group", "seed", "status", "rollouts", *map(title, metrics), "entropy"]
    return _cut("runs", "Runs", note, head, rows, len(every))


def odd(report: Report) -> Table:
    groups = {run.folder: group.label for group in report.groups for run in group.runs}
    found: dict[tuple[str, str, str], list[Odd]] = {}
    for one in report.odd:  # what all runs of a group have in common is said once
        key = (groups[one.run.folder], one.sentence, "yes" if one.included else "no")
        found.setdefault(key, []).append(one)
    sizes = {group.label: len(group.runs) for group in report.groups}
    rows = [
        [_named(report, ones, sizes[label]), label, sentence, counted]
        for (label, sentence, counted), ones in list(found.items())[:LONGEST]
    ]
    note = "Shown and named rather than averaged away. Runs that did not get to their end are in no statistics."
    return _cut("odd", "Odd runs", note, ["run", "group", "what", "in the statistics"], rows, len(found))


def _named(report: Report, ones: list[Odd], total: int) -> str:
    if len(ones) == total > 2:
        return f"all {total}"
    listed = [report.names[one.run.folder] for one in ones[:5]]
    return ", ".join(listed) + (f" and {len(ones) - 5} more" if len(ones) > 5 else "")


def _run(report: Report, group: Group, run: Run, metrics: list[str]) -> list[str]:
    ends = [final(run, metric) for metric in metrics]
    rollouts = f"{run.rollouts} of {run.planned}" if run.planned not in (None, run.rollouts) else str(run.rollouts)
    values = ["" if value is None else f"{value:.3f}" for value in ends]
    seed = "" if run.seed is None else str(run.seed)
    words = report.verdicts[run.folder].words
    return [report.names[run.folder], group.label, seed, run.status, rollouts, *values, words]


def _ordered(report: Report) -> list[Group]:
    return report.shown + [group for group in report.groups if all(group is not one for one in report.shown)]


def _seeds(report: Report, group: Group) -> str:
    there = sum(run.folder in report.included for run in group.runs)
    out = len(group.runs) - there
    return f"{there} (+ {out} left out)" if out else str(there)


def _score(score: Score | None) -> str:
    return "" if score is None else _plain(score.estimate, 3)


def _plain(estimate: Estimate, digits: int) -> str:
    point, low, high, _ = estimate
    interval = f" [{low:.{digits}f}, {high:.{digits}f}]" if low == low else ""
    return f"{point:.{digits}f}{interval}"


def _signed(estimate: Estimate) -> str:
    point, low, high, _ = estimate
    return f"{point:+.3f}" + (f" [{low:+.3f}, {high:+.3f}]" if low == low else "")


def _setting(value: object) -> str:
    return "null" if value is None else str(value)


def _cut(name: str, heading: str, note: str, head: list[str], rows: list[list[str]], count: int | None = None) -> Table:
    """`count`: how many rows there would be, where not all were made."""
    if (count or len(rows)) > LONGEST:
        note = f"{note} The first {LONGEST} of {count or len(rows)} rows; runs.parquet has every run."
    return Table(name, heading, note, head, rows[:LONGEST])
