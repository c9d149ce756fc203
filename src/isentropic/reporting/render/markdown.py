"""A report as Markdown, and its scores as a LaTeX table."""

import csv
import re
from pathlib import Path

from isentropic.reporting.analysis.estimate import FEW
from isentropic.reporting.analysis.scores import Score, title
from isentropic.reporting.analysis.significance import Comparison
from isentropic.reporting.render.report import Report
from isentropic.reporting.render.sentences import cautions, headline, summary
from isentropic.reporting.render.tables import Table, tables

DIFFERENCES = (
    "score", "group", "against", "seeds", "seeds_against", "paired", "difference", "low", "high", "spread",
    "p", "corrected", "comparisons", "findable", "verdict",
)  # fmt: skip
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def markdown(report: Report) -> str:
    """For a folder in which `figures/` lies."""
    made = {table.name: table for table in tables(report)}
    first = [made.pop(name) for name in ("scores", "differences", "odd") if name in made]
    parts = [
        f"# {inline(report.title)}",
        f"```bash\n{report.command}\n```",
        *([inline(sentence)] if (sentence := headline(report)) else []),
        "## What differs\n\n" + _list(summary(report)),
        "## What cannot be claimed\n\n" + _list(cautions(report)),
        *map(_table, first),
        "## Pictures\n\n" + "\n\n".join(_picture(p.name, p.title, p.alt, p.note) for p in report.pictures),
        *map(_table, made.values()),
    ]
    return "\n\n".join(parts) + "\n"


def latex(report: Report) -> str:
    """A `booktabs` table: group, seeds, mean and interval of each score."""
    metrics = list(dict.fromkeys(score.metric for score in report.scores))
    cells = {(id(score.group), score.metric): score for score in report.scores}
    lines = [
        "% \\usepackage{booktabs}",
        "% mean over seeds [95 % t interval, from 3 seeds on]",
        f"\\begin{{tabular}}{{l{'r' * (1 + len(metrics))}}}",
        "\\toprule",
        " & ".join(["group", "seeds", *(_tex(title(metric)) for metric in metrics)]) + r" \\",
        "\\midrule",
    ]
    for group in report.shown:
        row = [cells.get((id(group), metric)) for metric in metrics]
        there = sum(run.folder in report.included for run in group.runs)
        lines.append(" & ".join([_tex(group.label), str(there), *map(_cell, row)]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def write(report: Report, folder: Path) -> None:
    (folder / "report.md").write_text(markdown(report), encoding="utf-8")
    (folder / "table.tex").write_text(latex(report), encoding="utf-8")
    with (folder / "differences.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(DIFFERENCES)
        lines.writerows(_difference(pair) for pair in report.comparisons)


def _difference(pair: Comparison) -> list[object]:
    point, low, high, _ = pair.difference
    values = [pair.metric, pair.ours.label, pair.theirs.label, *pair.sizes, pair.paired, point, low, high, pair.spread]
    return [*values, pair.p, pair.corrected, pair.among, pair.findable, pair.verdict]


def _list(sentences: list[str]) -> str:
    return "\n".join(f"- {inline(sentence)}" for sentence in sentences) or "- Nothing."


def _picture(name: str, heading: str, alt: str, note: str) -> str:
    return f"![{inline(alt)}](figures/{name}.png)\n\n*{inline(heading)}.* {inline(note)}"


def _table(table: Table) -> str:
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    rows = "\n".join(f"| {' | '.join(inline(cell) for cell in line)} |" for line in lines)
    return f"## {table.title}\n\n{table.note}\n\n{rows}"


def inline(text: str) -> str:
    """On one line, and without what Markdown would take for its own."""
    return re.sub(r"([\\`*<|\[\]_])", r"\\\1", " ".join(text.split()))


def _tex(text: str) -> str:
    return re.sub(r"[\\~^]|[&%$#_{}]", lambda m: LATEX.get(m[0], f"\\{m[0]}"), " ".join(text.split()))


def _cell(score: Score | None) -> str:
    if score is None:
        return "--"
    point, low, high, size = score.estimate
    return f"{point:.3f}" + (f" [{low:.3f}, {high:.3f}]" if size >= FEW else "")
