"""What papers show of tokens, from committed curves: how often STARE chooses rightly, the gradient beside the entropy.

    python docs/results/token_figures.py docs/results/calculator/curves.parquet

Means over the first and the last 20 rollouts of each run, and over all, where the metric was logged; then over seeds,
with 95 % t intervals. The last line is the correlation of the gradient's norm with the entropy over a run's rollouts.
"""

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
    main(sys.argv[1])
