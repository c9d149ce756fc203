"""The scripts behind docs/results read the rows and curves that are committed beside them."""

import csv
from pathlib import Path

import pytest

from isentropic.reporting.analysis.scores import final
from isentropic.runs.run import find

RESULTS = Path(__file__).parents[1] / "docs" / "results"


@pytest.mark.parametrize("study", ["countdown_grid", "smollm2"])
def test_rows_become_runs_that_a_report_reads(script, tmp_path, study):
    with (RESULTS / study / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    restate = script(RESULTS / "restate.py")
    for row in rows:
        restate.write(row, tmp_path / row["group"] / row["seed"])
    runs = find([tmp_path])
    assert len(runs) == len(rows) and {run.status for run in runs} == {"done"}
    scores = {(run.folder.parent.name, str(run.seed)): final(run, "eval/pass@16") for run in runs}
    assert scores == {(row["group"], row["seed"]): float(row["pass@16"]) for row in rows}


def test_figures_of_tokens_come_from_committed_files(script, capsys):
    figures = script(RESULTS / "token_figures.py")
    figures.main(str(RESULTS / "calculator" / "curves.parquet"))
    figures.chosen(str(RESULTS / "countdown_short" / "tokens.csv.gz"))
    told = capsys.readouterr().out
    page = (RESULTS / "README.md").read_text()
    assert "0.354 [0.335, 0.374]" in told and "0.354 [0.335, 0.374]" in page
    kept = [line for line in told.splitlines() if line.startswith(("| grpo |", "| stare |"))]
    assert len(kept) == 2 and all(line in page for line in kept)


def test_the_table_of_weights_comes_from_committed_rows(script, capsys):
    script(RESULTS / "weights.py").table(RESULTS / "weights.csv")
    page = (RESULTS / "README.md").read_text()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9 and all(line in page for line in lines)
