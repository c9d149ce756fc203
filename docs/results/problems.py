"""What a difference between groups is over other test problems: an interval over problems, beside that over seeds.

    python docs/results/problems.py count logs/long docs/results/countdown_saturated/problems.csv  # of answers
    python docs/results/problems.py compare docs/results/countdown_saturated/problems.csv grpo_tuned

All runs of a study are judged on the same problems, so an interval over seeds is of these problems alone. Here the
differences of problems, each the mean over runs, are the sample (`over problems`); `both` adds the two variances, as
where seeds and problems are drawn apart, with the fewer degrees of freedom. It is wide rather than narrow, as what is
between a seed and a problem counts in both.
"""

import csv
import gzip
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

from scipy.stats import t

WAY = "t0.5"
Shares = dict[str, dict[str, dict[str, float]]]  # of right answers, by group, seed and problem


def count(runs: Path, out: Path) -> None:
    """Right answers of each run to each problem, at temperature 0.5, over all checkpoints that were judged."""
    with out.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["group", "seed", "problem", "answers", "right"])
        for answers in sorted(runs.glob("*/*/answers.csv.gz")):
            found: dict[int, list[int]] = defaultdict(list)
            with gzip.open(answers, "rt", newline="") as rows:
                for row in csv.DictReader(rows):
                    if row["way"] == WAY:
                        found[int(row["problem"])].append(int(row["right"]))
            label, seed = answers.parts[-3:-1]
            lines.writerows([label, seed, problem, len(one), sum(one)] for problem, one in sorted(found.items()))


def compare(table: Path, reference: str) -> None:
    shares: Shares = defaultdict(lambda: defaultdict(dict))
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            shares[row["group"]][row["seed"]][row["problem"]] = int(row["right"]) / int(row["answers"])
    print(f"| against `{reference}`, T 0.5 | pairs | problems | over seeds | over problems | both |")
    print("| --- | --- | --- | --- | --- | --- |")
    for label in sorted(shares.keys() - {reference}):
        ours, theirs = shares[label], shares[reference]
        seeds = sorted(ours.keys() & theirs.keys())
        problems = sorted(ours[seeds[0]])
        differences = {(s, p): ours[s][p] - theirs[s][p] for s in seeds for p in problems}
        by_seed = [mean(differences[s, p] for p in problems) for s in seeds]
        by_problem = [mean(differences[s, p] for s in seeds) for p in problems]
        seed_error, problem_error = (stdev(one) / len(one) ** 0.5 for one in (by_seed, by_problem))
        both = (seed_error**2 + problem_error**2) ** 0.5
        freedoms = ((seed_error, len(seeds) - 1), (problem_error, len(problems) - 1), (both, len(seeds) - 1))
        cells = [interval(mean(by_seed), error, freedom) for error, freedom in freedoms]
        print(f"| `{label}` | {len(seeds)} | {len(problems)} | {' | '.join(cells)} |")


def interval(point: float, error: float, freedom: int) -> str:
    reach = float(t.ppf(0.975, freedom)) * error
    return f"{point:+.3f} [{point - reach:.3f}, {point + reach:.3f}]".replace("-", "\u2212")


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    counting = parts.add_parser("count")
    counting.add_argument("runs", type=Path)
    counting.add_argument("out", type=Path)
    counting.set_defaults(does=lambda asked: count(asked.runs, asked.out))
    comparing = parts.add_parser("compare")
    comparing.add_argument("table", type=Path)
    comparing.add_argument("reference")
    comparing.set_defaults(does=lambda asked: compare(asked.table, asked.reference))
    asked = parser.parse_args()
    asked.does(asked)


if __name__ == "__main__":
    main()
