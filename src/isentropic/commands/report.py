"""Run folders in, a report out: what differs between them, by which statistics, and what cannot be claimed.

    isentropic report FOLDER [LABEL=FOLDER ...] [--primary avg@8] [--reference grpo] [--draw METRIC] [--out DIR]

Writes report.html, report.md, table.tex, differences.csv, runs.csv, runs.parquet, curves.parquet and figures/ into DIR:
by default `report` in the folder, or beside one is working where there are several.
"""

import shlex
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from isentropic.config.refused import refuse
from isentropic.reporting.render import markdown, page, parquet
from isentropic.reporting.render.report import Report, findings
from isentropic.reporting.render.sentences import cautions, summary
from isentropic.runs.parallel import spread
from isentropic.runs.run import Run, find, identity

MANY = 1000  # runs that are worth another process


def main(arguments: list[str]) -> None:
    asked = parser().parse_args(arguments)
    try:
        report, out = write(asked, arguments)
    except ValueError as error:
        refuse(error)
    print("\n".join(["What differs:", *summary(report), "", "What cannot be claimed:", *cautions(report)]))
    print(f"\nreport: {out / 'report.html'}; beside it report.md, table.tex, CSV, parquet and figures/")


def parser() -> ArgumentParser:
    made = ArgumentParser("isentropic report", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    made.add_argument("folders", nargs="+", metavar="[LABEL=]FOLDER", help="of runs or sweeps, at any depth")
    made.add_argument("--out", type=Path, metavar="DIR", help="where the report is written")
    made.add_argument("--ignore", action="append", default=[], metavar="KEY", help="a config key that is no setting")
    made.add_argument("--primary", metavar="METRIC", help="the score by which alone anything is claimed, such as avg@8")
    made.add_argument("--reference", metavar="LABEL", help="the group to compare with; else grpo, or the first")
    made.add_argument("--against", metavar="LABEL", help="the same")
    made.add_argument(
        "--draw", action="append", default=[], metavar="METRIC", help="a curve besides, such as policy/grad_norm"
    )
    return made


def write(asked: Namespace, arguments: list[str]) -> tuple[Report, Path]:
    """Raises ValueError for a folder that is not there or without runs, and for a key or label that there is not."""
    folders, runs = read(asked.folders, asked.draw)
    check_drawn(runs, asked.draw)
    out = asked.out or (folders[0] / "report" if len(folders) == 1 else Path("report"))
    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for old in (old for kind in ("png", "svg", "pdf") for old in figures.glob(f"*.{kind}")):
        old.unlink()
    command = shlex.join(["isentropic", "report", *arguments])
    named = {"primary": asked.primary, "called": asked.reference and "--reference"}
    named = {name: value for name, value in named.items() if value}
    against = asked.reference or asked.against
    report = findings(runs, folders, command, asked.ignore, against, figures, more=asked.draw, **named)
    writers = (parquet.curves, parquet.runs, page.write, markdown.write)  # the longest first
    spread(lambda write: write(report, out), writers, chunk=1 if len(runs) > MANY else len(writers))
    return report, out


def check_drawn(runs: list[Run], metrics: list[str]) -> None:
    """Raises ValueError for a metric that no run has logged, with those that it may have meant."""
    for metric in metrics:
        if not any(metric in run.metrics for run in runs):
            known = sorted({name for run in runs for name in run.metrics})
            close = get_close_matches(metric, known, n=3, cutoff=0.3) or known[:3]
            raise ValueError(f"--draw {metric}: no run has logged it; take another, such as {', '.join(close)}")


def read(folders: list[str], more: Sequence[str] = ()) -> tuple[list[Path], list[Run]]:
    """Each run once, under the first label that it comes by; `more` are metrics to read besides."""
    found: dict[tuple[int, int], Run] = {}
    places: list[Path] = []
    for text in folders:
        label, equals, path = text.partition("=")
        if not equals or Path(text).is_dir():
            label, path = "", text
        places.append(Path(path))
        for run in find([path], label, more):
            found.setdefault(identity(run.folder), run)
    return places, list(found.values())


if __name__ == "__main__":
    main(sys.argv[1:])
