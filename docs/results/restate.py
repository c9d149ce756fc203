"""Rows of runs whose folders are gone, as folders that `isentropic report` reads, for its statistics.

    python docs/results/restate.py docs/results/countdown_grid/rows.csv logs/restated
    isentropic report logs/restated --reference grpo

A row is a run: group, seed, rollouts, scores after the last of these, and the mean entropy over the last tenth. What is
written holds no curves, and the draw of test problems that followed the seed, which the report takes into account.
"""

import argparse
import csv
from pathlib import Path

import yaml

SCORES = {"avg@8": "eval/avg@8", "pass@16": "eval/pass@16", "entropy": "entropy/mean"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("folder", type=Path, help="of the runs that are written")
    asked = parser.parse_args()
    with asked.rows.open() as file:
        for row in csv.DictReader(file):
            write(row, asked.folder / row["group"] / row["seed"])


def write(row: dict[str, str], folder: Path) -> None:
    (folder / ".hydra").mkdir(parents=True, exist_ok=True)
    group, seed, rollouts = row["group"], int(row["seed"]), int(row["rollouts"])
    settings = {"algorithm": {"name": group}, "seed": seed, "task": {"seed": seed}, "rollout": {"steps": rollouts}}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump([f"algorithm={group}", f"seed={seed}"]))
    with (folder / "metrics.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["step", *SCORES.values()], [rollouts, *(row[name] for name in SCORES)]])


if __name__ == "__main__":
    main()
