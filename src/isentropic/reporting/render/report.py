"""All that a report says, before it is a page, a text or a table; `report.md` and `report.html` are written from it."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from isentropic.reporting.analysis.anomalies import Odd, complete, odd, twice
from isentropic.reporting.analysis.entropy_verdict import Verdict, judge
from isentropic.reporting.analysis.groups import Group, group
from isentropic.reporting.analysis.scores import Score, measured, scores, title
from isentropic.reporting.analysis.significance import Comparison, comparisons
from isentropic.reporting.render.curve_figures import Picture, curve_lines, curve_pictures, draw, silent
from isentropic.reporting.render.overview import overview
from isentropic.reporting.render.score_figures import headline, score_pictures
from isentropic.reporting.render.style import COLOURED, SHOWN, styles
from isentropic.runs.parallel import spread
from isentropic.runs.run import Run

BASELINE = "grpo"


@dataclass(frozen=True)
class Report:
    title: str
    command: str  # that writes this report again
    folders: list[Path]  # asked for
    runs: list[Run]
    names: dict[Path, str]  # of a run's folder: its path below what the runs share
    groups: list[Group]
    shown: list[Group]  # those in pictures and comparisons, the reference first
    reference: Group  # what others are compared with
    primary: str | None  # the one metric by which anything is claimed, if it was named
    settings: list[str]  # the keys by which groups differ
    notes: list[str]  # sentences about keys that are no settings
    included: set[Path]  # folders of the runs that are in the statistics
    scores: list[Score]  # of all groups
    comparisons: list[Comparison]  # of those shown
    verdicts: dict[Path, Verdict]  # on entropy, by the folder of the run
    odd: list[Odd]
    silent: list[str]  # metrics that are not drawn, as they are the same in all runs, all the time
    pictures: list[Picture]  # in the folder figures/, beside the report


def findings(
    runs: list[Run],
    folders: list[Path],
    command: str,
    ignore: Iterable[str],
    against: str | None,
    figures: Path | None,
    primary: str | None = None,
    called: str = "--against",
    more: Sequence[str] = (),  # metrics to draw besides
) -> Report:
    """Draws into `figures`, if given. Raises ValueError for a key to ignore, label or primary metric there is not."""
    grouping = group(runs, ignore)
    reference = _reference(grouping.groups, against, called)
    repeated = twice(grouping.groups)
    included = {run.folder for run in runs if complete(run) and run.folder not in repeated}
    found = scores(grouping.groups, lambda run: run.folder in included)
    first = _primary(runs, primary)
    shown = _shown(grouping.groups, reference, found, first)
    places = {id(one) for one in shown}
    scored = [score for score in found if id(score.group) in places]
    compared = comparisons(scored, reference, len(grouping.groups) - 1, first, alone=against is not None)
    lines = curve_lines(shown, included, more)
    looks = styles(len(shown), _differing(shown, compared, reference, first))
    place = figures or Path()
    drawings = headline(told(compared, reference, first), dict(zip(map(id, shown), looks, strict=True)), place)
    drawings += overview(shown, included, lines, place, looks) + score_pictures(shown, scored, place, looks)
    drawings += curve_pictures(shown, included, lines, place, looks)
    return Report(
        title=f"{len(runs)} run{'s' if len(runs) != 1 else ''} of {', '.join(folder.name for folder in folders)}",
        command=command,
        folders=folders,
        runs=runs,
        names=names(runs),
        groups=grouping.groups,
        shown=shown,
        reference=reference,
        primary=first,
        settings=grouping.settings,
        notes=grouping.notes,
        included=included,
        scores=found,
        comparisons=compared,
        verdicts=dict(zip((run.folder for run in runs), spread(judge, runs, chunk=500), strict=True)),
        odd=odd(grouping.groups),
        silent=[metric for (metric, axis), drawn in lines.items() if axis == "rollouts" and silent(drawn)],
        pictures=draw(drawings if figures else [], many=len(shown) > COLOURED),
    )


def told(compared: Sequence[Comparison], reference: Group, primary: str | None) -> list[Comparison]:
    """Comparisons with the reference by the score that the report leads with: the primary, else the first."""
    pairs = [pair for pair in compared if pair.theirs is reference]
    metric = primary or next((pair.metric for pair in pairs), None)
    return [pair for pair in pairs if pair.metric == metric]


def _differing(shown: list[Group], compared: Sequence[Comparison], reference: Group, primary: str | None) -> list[int]:
    """Places of groups that differ from the reference, those of which most is known first."""
    known = [pair for pair in compared if pair.theirs is reference and pair.verdict not in ("open", "too few")]
    known.sort(key=lambda pair: (pair.metric != primary, pair.verdict.startswith("suggests"), pair.p))
    places = {id(group): index for index, group in enumerate(shown)}
    return list(dict.fromkeys(places[id(pair.ours)] for pair in known))


def names(runs: Sequence[Run]) -> dict[Path, str]:
    whole = {run.folder: str(run.folder.absolute()) for run in runs}
    shared = os.path.commonpath([os.path.dirname(path) for path in whole.values()])
    return {folder: os.path.relpath(path, shared) for folder, path in whole.items()}


def _reference(groups: list[Group], against: str | None, called: str) -> Group:
    """The one asked for, else GRPO if it is there, else the first."""
    if against is None:
        return next((one for one in groups if one.label.split(" ")[0] == BASELINE), groups[0])
    for one in groups:
        if one.label == against:
            return one
    listed = ", ".join(one.label for one in groups[:20])
    raise ValueError(f"{called} {against}: no group is called so; there are {listed}")


def _primary(runs: Sequence[Run], asked: str | None) -> str | None:
    """By its name in metrics.csv, or as tables write it."""
    there = measured(runs)
    known = {name: metric for metric in there for name in (metric, title(metric))}
    if asked is None or asked in known:
        return known.get(asked or "")
    raise ValueError(f"--primary {asked}: no run has such a score; there are {', '.join(map(title, there)) or 'none'}")


def _shown(groups: list[Group], reference: Group, found: list[Score], primary: str | None) -> list[Group]:
    """All, the reference first; of more than can be told apart, those with the highest scores."""
    others = [one for one in groups if one is not reference]
    if len(groups) > SHOWN:
        metric = primary or next(iter(measured([run for one in groups for run in one.runs])), "")
        points = {id(score.group): score.estimate.point for score in found if score.metric == metric}
        others = sorted(others, key=lambda one: -points.get(id(one), float("-inf")))[: SHOWN - 1]
    return [reference, *others]
