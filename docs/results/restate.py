"""Rows of runs whose folders are gone, as folders that `isentropic report` reads, for its statistics.

    python docs/results/restate.py docs/results/countdown_grid/rows.csv logs/restated
    isentropic report logs/restated --reference grpo

A row is a run: group, seed, rollouts, scores after the last of these, and the mean entropy over the last tenth. What is
written holds the curves of curves.csv.gz, where one lies beside the rows, as a study leaves both; else no curves, and
the draw of test problems that followed the seed, which the report takes into account.
"""

import argparse
import csv
import gzip
from pathlib import Path

import yaml

SCORES = {"avg@8": "eval/avg@8", "pass@16": "eval/pass@16", "entropy": "entropy/mean"}
Lines = list[dict[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("folder", type=Path, help="of the runs that are written")
    asked = parser.parse_args()
    restate(asked.rows, asked.folder)


def restate(rows: Path, folder: Path) -> None:
    curves: dict[tuple[str, str], Lines] = {}
    if (rows.parent / "curves.csv.gz").is_file():
        with gzip.open(rows.parent / "curves.csv.gz", "rt", newline="") as file:
            for line in csv.DictReader(file):
                curves.setdefault((line.pop("group"), line.pop("seed")), []).append(line)
    with rows.open() as file:
        for row in csv.DictReader(file):
            write(row, folder / row["group"] / row["seed"], curves.get((row["group"], row["seed"])))


def write(row: dict[str, str], folder: Path, curves: Lines | None = None) -> None:
    (folder / ".hydra").mkdir(parents=True, exist_ok=True)
    group, seed, rollouts = row["group"], int(row["seed"]), int(row["rollouts"])
    drawn = {"seed": seed} if curves is None else {"seed": seed, "test_seed": 0}  # a study has one test set
    settings = {"algorithm": {"name": group}, "seed": seed, "task": drawn, "rollout": {"steps": rollouts}}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump([f"algorithm={group}", f"seed={seed}"]))
    with (folder / "metrics.csv").open("w", newline="") as file:
        if curves is None:
            csv.writer(file).writerows([["step", *SCORES.values()], [rollouts, *(row[name] for name in SCORES)]])
            return
        judged = {f"eval/{name}": value for name, value in row.items() if "/" in name}  # to all of their digits
        lines = csv.DictWriter(file, ["step", *(name for name in curves[0] if name != "rollout")])
        lines.writeheader()
        for line in curves:
            step = line.pop("rollout")
            lines.writerow({"step": step, **line, **(judged if int(step) == rollouts else {})})


if __name__ == "__main__":
    main()
