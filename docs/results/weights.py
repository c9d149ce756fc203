"""Where does a weight just above 1 suffice? STARE's weight by learning rate, on a policy that is known exactly.

    python docs/results/weights.py --out docs/results/weights.csv

    python docs/results/weights.py --out docs/results/weights.csv --again   # the table alone, of what is there
    python docs/results/weights.py --countdown docs/results/countdown_weights/rows.csv   # of studies/weights.yaml

The policy is a table of logits (`isentropic.algorithm.toy_policy`): 8 problems, 24 places of 12 tokens, of which three
decide, 100 rollouts of 16 answers each, four updates. The gate's target is 95 % of the entropy at the start. Printed
is, at W = 1, the entropy over the last tenth as a share of the target; under it, how much of what then lacks another
weight gives back. Intervals are t intervals over seeds, of which each has a table of its own. Of countdown, one seed:
entropy over the last tenth, the part given back, and the accuracy of one answer at temperature 0.5.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import torch

from isentropic.algorithm import toy_policy
from isentropic.config.build import build
from isentropic.config.recipes import configured
from isentropic.reporting.analysis.estimate import intervals

WEIGHTS = (1.0, 1.05, 1.2, 1.5, 2.0, 3.0, 5.0)
RATES = (30.0, 100.0, 300.0)  # of gradient descent on logits, whose gradient is a mean over 3,072 tokens
SEEDS = 5
ROLLOUTS, GROUP, UPDATES = 100, 16, 4
TARGET = 0.95  # of the entropy at the start
COUNTDOWN = {"half": "5e-5", "one": "1e-4", "double": "2e-4"}
COUNTDOWN_TARGET = 0.15  # nats


def run(weight: float, rate: float, seed: int) -> dict[str, float]:
    torch.set_num_threads(1)
    puzzle = toy_policy.puzzle(problems=8, places=24, tokens=12, deciding=3, good=3, spread=1.0, seed=seed)
    start = float(toy_policy.entropy(puzzle.logits).mean())
    cfg = configured("stare")
    cfg.algorithm.credit.stare.boost = weight
    cfg.algorithm.control.target = TARGET * start
    found = toy_policy.train(puzzle, build(cfg, "algorithm"), ROLLOUTS, GROUP, UPDATES, rate, seed)
    last = found.entropy[-ROLLOUTS // 10 :]
    return {
        "weight": weight,
        "rate": rate,
        "seed": seed,
        "start": start,
        "target": TARGET * start,
        "entropy": sum(last) / len(last),
        "least": min(found.entropy),
        "accuracy": found.accuracy[-1],
    }


def table(file: Path) -> None:
    with file.open(newline="") as lines:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(lines)]
    print(f"| W | {' | '.join(f'rate {rate:g}' for rate in RATES)} |\n| --- " + "| --- " * len(RATES) + "|")
    for weight in WEIGHTS:
        cells: list[str] = []
        for rate in RATES:
            held, least = (shares(rows, one, rate) for one in (weight, WEIGHTS[0]))
            given = held if weight == WEIGHTS[0] else (held - least) / (1 - least)
            point, low, high, _ = intervals(given[:, None])[0]
            cells.append(f"{point:.3f} [{low:.3f}, {high:.3f}]")
        print(f"| {weight:g}{' (entropy / target)' if weight == WEIGHTS[0] else ''} | {' | '.join(cells)} |")


def countdown(file: Path) -> None:
    """W by learning rate, which a group's name has: rate_half_1.05."""
    with file.open(newline="") as lines:
        rows = {row["group"]: row for row in csv.DictReader(lines)}
    print(f"| W | {' | '.join(COUNTDOWN.values())} |\n| --- " + "| --- " * len(COUNTDOWN) + "|")
    for weight in WEIGHTS:
        cells: list[str] = []
        for rate in COUNTDOWN:
            row, least = rows[f"rate_{rate}_{weight:g}"], float(rows[f"rate_{rate}_1"]["entropy"])
            back = (float(row["entropy"]) - least) / (COUNTDOWN_TARGET - least)
            given = "" if weight == WEIGHTS[0] else f", {round(100 * back)} %"
            cells.append(f"{float(row['entropy']):.3f}{given}; {float(row['t0.5/avg@16']):.3f}")
        print(f"| {weight:g} | {' | '.join(cells)} |")


def shares(rows: list[dict[str, float]], weight: float, rate: float) -> np.ndarray:
    """Entropy at the end over the target, by seed."""
    own = [row for row in rows if (row["weight"], row["rate"]) == (weight, rate)]
    return np.array([row["entropy"] / row["target"] for row in sorted(own, key=lambda row: row["seed"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--countdown", type=Path, help="print the table of a study's rows")
    parser.add_argument("--again", action="store_true", help="print the table of rows that are there")
    asked = parser.parse_args()
    if asked.countdown:
        return countdown(asked.countdown)
    if not asked.out:
        parser.error("--out is missing")
    if asked.again:
        return table(asked.out)
    rows = [run(weight, rate, seed) for seed in range(SEEDS) for rate in RATES for weight in WEIGHTS]
    with asked.out.open("w", newline="") as file:
        lines = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        lines.writeheader()
        lines.writerows({name: f"{value:.6g}" for name, value in row.items()} for row in rows)
    table(asked.out)


if __name__ == "__main__":
    main()
