"""The tables of a study's scores, by the report's own statistics, from its committed rows and curves.

    python docs/results/scores.py docs/results/countdown_entropy t0.5/avg@16 grpo_tuned entropy_bonus_gated

Of each group means over seeds with 95 % t intervals; then differences from each reference. By the score that was named
p is after Holm's correction for its comparisons with one reference; by others after that for all by all scores of the
report. The last row of differences is what would have been found four times in five. Last, what is left under 0.05 by
the score that was named if its comparisons with all of these references are corrected for.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from isentropic.reporting.analysis.estimate import holm
from isentropic.reporting.analysis.power import CHANCE
from isentropic.reporting.analysis.significance import Comparison, chance
from isentropic.reporting.render.report import Report, findings
from isentropic.runs.run import find

sys.path.insert(0, str(Path(__file__).parent))
from restate import restate

SHOWN = {
    "eval/t0.5/avg@16": "T 0.5",
    "eval/t1/avg@16": "T 1",
    "eval/greedy/avg@1": "greedy",
    "eval/t1/maj@16": "maj@16",
    "eval/t1/pass@16": "pass@16",
    "entropy/mean": "entropy",
}


def main(folder: str, primary: str, *references: str) -> None:
    reports = made(Path(folder) / "rows.csv", primary, references)
    named = reports[0][0]
    print(f"| `algorithm=` | seeds | {' | '.join(SHOWN.values())} | collapsed |\n{'| --- ' * (3 + len(SHOWN))}|")
    for label in ordered(named):
        print(f"| `{label}` | {means(named, label)} |")
    for reference, pair in zip(references, reports, strict=True):
        print(f"\n| against `{reference}` | pairs | {' | '.join(SHOWN.values())} |\n{'| --- ' * (2 + len(SHOWN))}|")
        of = corrected(*pair)
        for label in ordered(named):
            found = [of[label, metric] for metric in SHOWN if (label, metric) in of]
            if found:
                print(f"| `{label}` | {found[0].difference.size} | {' | '.join(map(told, found))} |")
        print(f"| would be found | | {' | '.join(reach(of, metric) for metric in SHOWN)} |")
    print()
    for one, p in together([report for report, _ in reports]):
        if p < CHANCE:
            print(f"{one.ours.label} against {one.theirs.label}: {told(replace(one, corrected=p))}")


def made(rows: Path, primary: str, references: Sequence[str]) -> list[tuple[Report, Report]]:
    """With the score that was named and without, by reference."""
    with tempfile.TemporaryDirectory() as place:
        restate(rows, Path(place))
        runs = find([Path(place)])
        return [
            (
                findings(runs, [Path(place)], "", [], reference, None, primary),
                findings(runs, [Path(place)], "", [], reference, None),
            )
            for reference in references
        ]


def corrected(named: Report, free: Report) -> dict[tuple[str, str], Comparison]:
    """By group and score: of what was named as the report says that names it, of others as the one that names none."""
    both = [one for report in (free, named) for one in report.comparisons if one.corrected == one.corrected]
    return {(one.ours.label, one.metric): one for one in both}


def together(reports: Sequence[Report]) -> list[tuple[Comparison, float]]:
    """Comparisons by the score that was named with all references, and p corrected for all of them."""
    found = [one for report in reports for one in report.comparisons if one.corrected == one.corrected]
    return list(zip(found, holm(np.array([one.p for one in found]), len(found)).tolist(), strict=True))


def ordered(report: Report) -> list[str]:
    """By the first score, the highest first."""
    first = [score for score in report.scores if score.metric == next(iter(SHOWN))]
    return [score.group.label for score in sorted(first, key=lambda score: -score.estimate.point)]


def means(report: Report, label: str) -> str:
    own = {score.metric: score for score in report.scores if score.group.label == label}
    cells = [f"{e.point:.3f} [{e.low:.3f}, {e.high:.3f}]" for e in (own[metric].estimate for metric in SHOWN)]
    runs = own["entropy/mean"].group.runs
    collapsed = sum(report.verdicts[run.folder].collapse is not None for run in runs)
    return f"{len(runs)} | {' | '.join(cells)} | {collapsed} of {len(runs)}"


def told(one: Comparison) -> str:
    point, low, high, _ = one.difference
    cell = f"{point:+.3f} [{low:.3f}, {high:.3f}], p {chance(one.corrected)}".replace("-", "\u2212")
    return f"**{cell}**" if one.verdict in ("higher", "lower") else cell


def reach(of: dict[tuple[str, str], Comparison], metric: str) -> str:
    sizes = sorted(one.findable for (_, score), one in of.items() if score == metric)
    return f"{sizes[0]:.3f} to {sizes[-1]:.3f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
