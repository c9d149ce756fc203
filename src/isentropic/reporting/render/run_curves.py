"""The curves of one run, from its `metrics.csv`."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from isentropic.reporting.analysis.smoothing import BAND, smooth
from isentropic.runs.metrics import metrics_files

# Okabe and Ito 2008: told apart by the colour-blind too
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
MARKERS = "osD^vP"

Series = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Run:
    """What a run logged: steps and values of each metric."""

    label: str
    metrics: dict[str, Series]

    def scores(self, kind: str) -> list[str]:
        """Evaluation metrics of a kind, such as `avg@`, without their bounds."""
        found = (name for name in self.metrics if name.startswith(f"eval/{kind}"))
        return sorted(name for name in found if not name.endswith(("_low", "_high")))


def curves(folder: Path) -> Path:
    """Draws `curves.png` into a run's folder. Raises ValueError where there are no metrics."""
    run = load(folder, "")
    figure, axes = canvas()
    draw_entropy(axes[0][0], [run])
    draw_scores(axes[0][1], [run], ("avg@", "pass@"), "evaluation")
    draw_rollouts(axes[1][0], [run], "rollout/reward", "reward")
    draw_rollouts(axes[1][1], [run], "rollout/length", "response length (tokens)")
    return save(figure, Path(folder) / "curves.png")


def load(folder: Path, label: str) -> Run:
    """The newest `metrics.csv` under a folder, and the earlier parts of its run; of a step in several, the last."""
    files = sorted(Path(folder).rglob("metrics.csv"), key=lambda file: file.stat().st_mtime)
    if not files:
        raise ValueError(f"no metrics.csv in {folder}; give the folder of a run made with logger=csv")
    values: dict[str, dict[float, float]] = {}
    home = files[-1].parent
    for part in metrics_files(home):
        for row in csv.DictReader(part.read_text().splitlines()):
            if row.get("step"):
                for name, value in row.items():
                    if value and value != "nan" and name != "step":  # a mean over nothing
                        values.setdefault(name, {})[float(row["step"])] = float(value)
    if not values:
        raise ValueError(f"{files[-1]} holds no metrics yet; wait for the first step")
    return Run(label, {n: (np.array(sorted(v)), np.array([v[s] for s in sorted(v)])) for n, v in values.items()})


def draw_entropy(axis: Any, runs: list[Run]) -> None:
    draw_rollouts(axis, runs, "entropy/mean", "entropy of the policy (nats per token)")
    targets = {float(run.metrics["control/target"][1][-1]) for run in runs if "control/target" in run.metrics}
    for target in sorted(targets):
        axis.axhspan(target * (1 - BAND), target * (1 + BAND), color="0.85", zorder=0, label=f"target ± {BAND:.0%}")
        axis.axhline(target, color="0.4", linewidth=1, linestyle=(0, (2, 2)), zorder=1)
    axis.set_ylim(bottom=0)
    legend(axis)


def draw_rollouts(axis: Any, runs: list[Run], metric: str, title: str) -> None:
    """Each rollout faintly, their running mean over it."""
    frame(axis, title)
    for index, run in enumerate(runs):
        if metric in run.metrics:
            steps, values = run.metrics[metric]
            axis.plot(steps, values, color=COLOURS[index % 6], alpha=0.25, linewidth=0.8)
            axis.plot(steps, smooth(values), color=COLOURS[index % 6], linestyle=DASHES[index % 6], label=run.label)
    legend(axis)


def draw_scores(axis: Any, runs: list[Run], kinds: Sequence[str], title: str) -> None:
    frame(axis, title)
    lines = [(run, name) for run in runs for kind in kinds for name in run.scores(kind)]
    for index, (run, name) in enumerate(lines):
        style = {"color": COLOURS[index % 6], "linestyle": DASHES[index % 6], "marker": MARKERS[index % 6]}
        label = " ".join(filter(None, (run.label, name.removeprefix("eval/"))))
        axis.plot(*run.metrics[name], **style, markersize=4, label=label)
        if f"{name}_low" in run.metrics:
            (steps, low), (_, high) = run.metrics[f"{name}_low"], run.metrics[f"{name}_high"]
            axis.fill_between(steps, low, high, color=COLOURS[index % 6], alpha=0.15, linewidth=0)
    axis.set_ylim(bottom=0)
    legend(axis)


def canvas() -> tuple[Figure, Any]:
    figure = Figure(figsize=(10, 6.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(2, 2)


def frame(axis: Any, title: str) -> None:
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_xlabel("rollouts", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def legend(axis: Any) -> None:
    labels = axis.get_legend_handles_labels()[1]
    if any(labels):
        axis.legend(fontsize=8, frameon=False)
    elif not axis.has_data():
        axis.text(0.5, 0.5, "nothing logged", transform=axis.transAxes, ha="center", color="0.5")


def save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
