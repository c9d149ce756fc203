"""What papers show of tokens, from committed curves: how often STARE chooses rightly, the gradient beside the entropy.

    python docs/results/token_figures.py docs/results/calculator/curves.parquet
    python docs/results/token_figures.py docs/results/countdown_entropy/curves.csv.gz grpo_tuned stare
    python docs/results/token_figures.py docs/results/smollm2_calculator/curves.csv.gz
    python docs/results/token_figures.py docs/results/tokens.csv.gz

Means over the first and the last 20 rollouts of each run, and over all, where the metric was logged; then over seeds,
with 95 % t intervals, or one by one where there are fewer than three; of the groups that are named, else of all. Then
the correlation of the gradient's norm with the entropy over a run's rollouts, and where it was logged how the change of
entropy that the first order predicts goes with what was measured: correlation, and the share of rollouts with one sign.

Of tokens, as samples.jsonl has them: of those whose surprisal is above the entropy, and of those that surprise most in
good answers, the share whose exact sensitivity is below 0: reinforcing these raises entropy.
"""

import csv
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.csv as pa
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
    "entropy/q50": "entropy of the median token",
    "entropy/q70": "of the seventh decile",
    "entropy/q80": "of the eighth decile",
    "entropy/q90": "of the ninth decile",
}
PREDICTED, MEASURED = "entropy/predicted_change", "entropy/measured_change"
ENDS = 20  # rollouts
TOPS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)  # of the tokens in good answers


def main(file: str, *chosen_groups: str) -> None:
    columns, names, groups = read(file)
    groups = {group: groups[group] for group in chosen_groups or groups}
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
    pairs = {
        "correlation of norm and entropy": (together, "policy/grad_norm", "entropy/mean"),
        "correlation of predicted and measured change": (together, PREDICTED, MEASURED),
        "rollouts in which these have one sign": (alike, PREDICTED, MEASURED),
    }
    for title, (count, one, other) in pairs.items():
        for group, runs in groups.items() if np.isfinite(columns[one]).any() else []:
            along = [count(columns[one][names == run], columns[other][names == run]) for run in runs]
            print(f"| {title} | `{group}` | | | {told(along)} |")


def read(file: str) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, list[str]]]:
    """Columns, NaN where they were not logged; the run of each row; runs by group. Of a report's file or a study's."""
    table = pq.read_table(file) if file.endswith(".parquet") else pa.read_csv(file)
    if "run" not in table.column_names:
        named = "group" if "group" in table.column_names else "algorithm"
        labels, seeds = table[named].to_pylist(), table["seed"].to_pylist()
        table = table.append_column("run", [[f"{label},{seed}" for label, seed in zip(labels, seeds, strict=True)]])
        table = table.rename_columns(["step" if name == "rollout" else name for name in table.column_names])
    nothing = np.full(table.num_rows, np.nan)
    columns = {
        name: table[name].to_numpy().astype(float) if name in table.column_names else nothing
        for name in ("step", *METRICS, PREDICTED, MEASURED)
    }
    names = np.array(table["run"].to_pylist())
    groups: dict[str, list[str]] = {}
    for run in sorted(set(names)):
        groups.setdefault(run.split(",")[0].removeprefix("algorithm="), []).append(run)
    return columns, names, groups


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


def together(one: np.ndarray, other: np.ndarray) -> float:
    known = np.isfinite(one) & np.isfinite(other)
    return float(np.corrcoef(one[known], other[known])[0, 1])


def alike(one: np.ndarray, other: np.ndarray) -> float:
    known = np.isfinite(one) & np.isfinite(other)
    return float((one[known] * other[known] > 0).mean())


def told(cell: Sequence[float]) -> str:
    if not np.isfinite(cell).all():
        return ""
    if len(cell) < 3:
        return ", ".join(f"{one:.{4 if abs(one) < 0.02 else 3}f}" for one in cell)
    point, low, high, _ = intervals(np.array(cell)[:, None])[0]
    digits = 4 if abs(point) < 0.02 else 3
    return f"{point:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


if __name__ == "__main__":
    (chosen if "tokens" in Path(sys.argv[1]).name else main)(*sys.argv[1:])
