"""What papers show of tokens, from committed curves: how often STARE chooses rightly, the gradient beside the entropy.

    python docs/results/token_figures.py docs/results/calculator/curves.parquet
    python docs/results/token_figures.py docs/results/countdown_short/tokens.csv.gz

Means over the first and the last 20 rollouts of each run, and over all, where the metric was logged; then over seeds,
with 95 % t intervals. The last line is the correlation of the gradient's norm with the entropy over a run's rollouts.

Of tokens, as samples.jsonl has them: of those whose surprisal is above the entropy, and of those that surprise most in
good answers, the share whose exact sensitivity is below 0: reinforcing these raises entropy.
"""

import csv
import gzip
import sys
from collections.abc import Sequence

import numpy as np
import pyarrow.parquet as pq

from isentropic.reporting.analysis.estimate import intervals

METRICS = {
    "credit/stare": "share of tokens that STARE lifts",
    "credit/stare_precision": "of these, where lifting raises entropy",
    "entropy/mean": "entropy, nats",
    "policy/grad_norm": "norm of the gradient",
    "rollout/all_right": "share of groups all right",
    "clipping/clipped_high": "share of tokens clipped above",
    "clipping/clipped_low": "share of tokens clipped below",
}
ENDS = 20  # rollouts
TOPS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)  # of the tokens in good answers


def main(file: str) -> None:
    table = pq.read_table(file)
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in ("step", *METRICS)}
    names = np.array(table["run"].to_pylist())
    groups: dict[str, list[str]] = {}
    for run in sorted(set(names)):
        groups.setdefault(run.split(",")[0].removeprefix("algorithm="), []).append(run)
    last = columns["step"].max()
    spans = {
        f"first {ENDS}": (1, ENDS),
        f"last {ENDS}": (last - ENDS + 1, last),
        "all": (1, last),
    }
    print("| | group | " + " | ".join(spans) + " |\n| --- | --- | --- | --- | --- |")
    for metric, title in METRICS.items():
        for group, runs in groups.items():
            cells = [
                [values(columns, metric, (names == run) & within(columns["step"], *span)) for run in runs]
                for span in spans.values()
            ]
            if any(np.isfinite(cell).any() and np.any(cell) for cell in cells):
                print(f"| {title} | `{group}` | {' | '.join(map(told, cells))} |")
    for group, runs in groups.items():
        along = [together(columns, names == run) for run in runs]
        print(f"| correlation of norm and entropy | `{group}` | | | {told(along)} |")


def chosen(file: str) -> None:
    with gzip.open(file, "rt", newline="") as lines:
        rows = list(csv.DictReader(lines))
    heads = " | ".join(f"top {top:.0%}" for top in TOPS)
    print(f"| run | tokens | surprising ones confirmed | in good answers | surprising | {heads} |")
    print("| --- " * (5 + len(TOPS)) + "|")
    for run in dict.fromkeys(row["run"] for row in rows):
        own = [row for row in rows if row["run"] == run]
        surprisal, entropy, advantage, sensitivity = (
            np.array([float(row[name]) for row in own]) for name in ("surprisal", "entropy", "advantage", "sensitivity")
        )
        raises, surprising, good = sensitivity < 0, surprisal > entropy, advantage > 0
        order = np.argsort(-surprisal[good])
        found = [raises[good][order[: max(1, round(top * good.sum()))]].mean() for top in TOPS]
        counts = f"{len(own)} | {raises[surprising].mean():.1%} | {good.sum()} | {surprising[good].mean():.1%}"
        print(f"| {run} | {counts} | {' | '.join(f'{one:.0%}' for one in found)} |")


def within(steps: np.ndarray, low: int, high: int) -> np.ndarray:
    return (steps >= low) & (steps <= high)


def values(columns: dict[str, np.ndarray], metric: str, rows: np.ndarray) -> float:
    """The mean of what was logged, NaN where nothing was."""
    found = columns[metric][rows]
    found = found[np.isfinite(found)]
    return float(found.mean()) if len(found) else float("nan")


def together(columns: dict[str, np.ndarray], rows: np.ndarray) -> float:
    norm, entropy = columns["policy/grad_norm"][rows], columns["entropy/mean"][rows]
    known = np.isfinite(norm) & np.isfinite(entropy)
    return float(np.corrcoef(norm[known], entropy[known])[0, 1])


def told(cell: Sequence[float]) -> str:
    if not np.isfinite(cell).all():
        return ""
    point, low, high, _ = intervals(np.array(cell)[:, None])[0]
    digits = 4 if abs(point) < 0.02 else 3
    return f"{point:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


if __name__ == "__main__":
    (chosen if sys.argv[1].endswith(".csv.gz") else main)(sys.argv[1])
