"""What two groups had when they came to the second of two tasks, and what they made of it, from committed curves.

    python docs/results/plasticity.py docs/results/smollm2_plasticity

Means over seeds with 95 % t intervals, and of the differences in pairs of seeds.
"""

import csv
import gzip
import sys
from pathlib import Path

import numpy as np

from isentropic.reporting.analysis.estimate import intervals

FIRST, SECOND = "before.csv.gz", "curves.csv.gz"
ROWS = (
    ("first task, after it: avg@8", FIRST, "eval/avg@8", (40, 40)),
    ("first task, its last ten rollouts: reward", FIRST, "rollout/reward", (31, 40)),
    ("first task, its last ten rollouts: entropy, nats", FIRST, "entropy/mean", (31, 40)),
    ("second task, before it: avg@8", SECOND, "eval/avg@8", (0, 0)),
    ("second task, before it: pass@16", SECOND, "eval/pass@16", (0, 0)),
    ("second task, its first five rollouts: entropy, nats", SECOND, "entropy/mean", (1, 5)),
    ("second task, after 25 rollouts: avg@8", SECOND, "eval/avg@8", (25, 25)),
    ("second task, after 50 rollouts: avg@8", SECOND, "eval/avg@8", (50, 50)),
)


def main(folder: str, reference: str = "grpo", other: str = "stare") -> None:
    print(f"| | `{reference}` | `{other}` | difference |\n| --- | --- | --- | --- |")
    for title, file, metric, span in ROWS:
        ours, theirs = (means(Path(folder) / file, group, metric, *span) for group in (other, reference))
        print(f"| {title} | {told(theirs)} | {told(ours)} | {told(ours - theirs, '+')} |")


def means(file: Path, group: str, metric: str, first: int, last: int) -> np.ndarray:
    """Of each seed, in their order, over these rollouts."""
    found: dict[int, list[float]] = {}
    with gzip.open(file, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["group"] == group and first <= int(row["rollout"]) <= last and row[metric]:
                found.setdefault(int(row["seed"]), []).append(float(row[metric]))
    return np.array([np.mean(found[seed]) for seed in sorted(found)])


def told(seeds: np.ndarray, sign: str = "") -> str:
    point, low, high, _ = intervals(seeds[:, None])[0]
    return f"{point:{sign}.3f} [{low:.3f}, {high:.3f}]".replace("-", "\u2212")


if __name__ == "__main__":
    main(*sys.argv[1:])
