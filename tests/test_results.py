"""The scripts behind docs/results read the rows and curves that are committed beside them."""

import csv
import gzip
from pathlib import Path

import pytest

from isentropic.reporting.analysis.scores import final
from isentropic.runs.run import find

RESULTS = Path(__file__).parents[1] / "docs" / "results"


STUDIES = ["countdown_grid", "smollm2", "countdown_entropy", "countdown_saturated", "smollm2_plasticity"]


@pytest.mark.parametrize("study", STUDIES)
def test_rows_become_runs_that_a_report_reads(script, tmp_path, study):
    with (RESULTS / study / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    script(RESULTS / "restate.py").restate(RESULTS / study / "rows.csv", tmp_path)
    runs = find([tmp_path])
    assert len(runs) == len(rows) and {run.status for run in runs} == {"done"}
    name = "t1/pass@16" if "t1/pass@16" in rows[0] else "pass@16"
    scores = {(run.folder.parent.name, str(run.seed)): final(run, f"eval/{name}") for run in runs}
    assert scores == {(row["group"], row["seed"]): float(row[name]) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "primary", "references", "groups"),
    [
        ("countdown_entropy", "t0.5/avg@16", ("grpo_tuned", "entropy_bonus_gated"), 9),
        ("countdown_saturated", "t0.5/avg@16", ("grpo_tuned",), 2),
        ("smollm2_plasticity", "t1/avg@16", ("grpo",), 2),
    ],
)
def test_tables_of_scores_come_from_committed_rows(script, capsys, study, primary, references, groups):
    script(RESULTS / "scores.py").main(str(RESULTS / study), primary, *references)
    page = (RESULTS / "README.md").read_text()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(lines) == 2 + groups + len(references) * (2 + groups - 1 + 1)
    assert all(line in page for line in lines)


def test_runs_that_stand_alone_are_those_of_committed_rows():
    names = ["t0.5/avg@16", "t1/avg@16", "greedy/avg@1", "t1/maj@16", "t1/pass@16", "entropy"]
    page = (RESULTS / "README.md").read_text()
    for file in ("rows.csv", "alone.csv"):
        with (RESULTS / "countdown_saturated" / file).open() as rows:
            for row in csv.DictReader(rows):
                if row["seed"] in ("7", "8"):
                    cells = " | ".join(f"{float(row[name]):.3f}" for name in names)
                    assert f"| {row['seed']} | {cells} |" in page, row["group"]


def test_the_gain_over_other_problems_comes_from_committed_counts(script, capsys):
    problems = script(RESULTS / "problems.py")
    problems.compare(RESULTS / "countdown_saturated" / "problems.csv", "grpo_tuned")
    lines = capsys.readouterr().out.splitlines()
    page = (RESULTS / "README.md").read_text()
    assert len(lines) > 2 and all(line in page for line in lines)


def test_differences_over_seeds_and_over_problems_are_two_samples(script, capsys, tmp_path):
    """Worked out by hand: two seeds, two problems, four answers each."""
    problems = script(RESULTS / "problems.py")
    for group, right in (("a", ((0, 0), (0, 0))), ("b", ((4, 2), (4, 4)))):
        for seed, row in enumerate(right):
            folder = tmp_path / "runs" / group / str(seed)
            folder.mkdir(parents=True)
            texts = ["rollout,way,problem,child,right,text"]
            texts += [f"9,t0.5,{p},{c},{int(c < n)},x" for p, n in enumerate(row) for c in range(4)]
            texts += ["9,t1,0,0,1,x"]
            with gzip.open(folder / "answers.csv.gz", "wt") as file:
                file.write("\n".join(texts))
    problems.count(tmp_path / "runs", tmp_path / "counts.csv")
    problems.compare(tmp_path / "counts.csv", "a")
    cells = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    alone, both = "+0.875 [\u22120.713, 2.463]", "+0.875 [\u22121.371, 3.121]"  # 12.706 deviations of .125, of .177
    assert cells == ["`b`", "2", "2", alone, alone, both]


def test_what_two_tasks_in_turn_show_comes_from_committed_curves(script, capsys):
    script(RESULTS / "plasticity.py").main(str(RESULTS / "smollm2_plasticity"))
    lines = capsys.readouterr().out.splitlines()
    page = (RESULTS / "README.md").read_text()
    assert len(lines) == 10 and all(line in page for line in lines)


def test_figures_of_tokens_come_from_committed_files(script, capsys):
    figures = script(RESULTS / "token_figures.py")
    figures.main(str(RESULTS / "calculator" / "curves.parquet"))
    figures.chosen(str(RESULTS / "tokens.csv.gz"))
    told = capsys.readouterr().out
    page = (RESULTS / "README.md").read_text()
    assert "0.354 [0.335, 0.374]" in told and "0.354 [0.335, 0.374]" in page
    figures.main(str(RESULTS / "countdown_entropy" / "curves.csv.gz"), "stare")
    lifted = [line for line in capsys.readouterr().out.splitlines() if "where lifting raises entropy" in line]
    assert len(lifted) == 1 and lifted[0] in page
    kept = [line for line in told.splitlines() if line.startswith(("| grpo |", "| stare |", "| smollm2"))]
    assert len(kept) == 5 and all(line in page for line in kept)
    figures.main(str(RESULTS / "smollm2_plasticity" / "before.csv.gz"))
    easier = [line for line in capsys.readouterr().out.splitlines() if line in page]
    assert len(easier) == 13
    figures.main(str(RESULTS / "smollm2_calculator" / "curves.csv.gz"))
    own = [line for line in capsys.readouterr().out.splitlines() if "`" in line and "entropy, nats" not in line]
    assert len(own) == 12 and all(line in page for line in own)


def test_the_table_of_weights_comes_from_committed_rows(script, capsys):
    script(RESULTS / "weights.py").table(RESULTS / "weights.csv")
    page = (RESULTS / "README.md").read_text()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9 and all(line in page for line in lines)
    script(RESULTS / "weights.py").countdown(RESULTS / "countdown_weights" / "rows.csv")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9 and all(line in page for line in lines)
