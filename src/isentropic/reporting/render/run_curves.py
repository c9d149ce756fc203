"""The curves of one run, from its `metrics.csv`."""

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from isentropic.reporting.analysis.smoothing import BAND, smooth
from isentropic.runs.files import CURVES, METRICS
from isentropic.runs.metrics import Series, metrics_files, read_metrics

# Okabe and Ito 2008: told apart by the colour-blind too
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
MARKERS = "osD^vP"
TURN = "entropy/turn_"


def curves(folder: Path) -> Path:
    """Draws `curves.png` into a run's folder. Raises ValueError where there are no metrics."""
    metrics = load(folder)
    figure = Figure(figsize=(10, 6.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(2, 2)
    draw_entropy(axes[0][0], metrics)
    draw_scores(axes[0][1], metrics)
    draw_rollouts(axes[1][0], metrics, "rollout/reward", "reward")
    draw_rollouts(axes[1][1], metrics, "rollout/length", "response length (tokens)")
    figure.savefig(folder / CURVES)
    return folder / CURVES


def load(folder: Path) -> dict[str, Series]:
    """By the newest `metrics.csv` under a folder, and the earlier parts of its run; of a step in several, the last."""
    files = sorted(folder.rglob(METRICS), key=lambda file: file.stat().st_mtime)
    if not files:
        raise ValueError(f"no metrics.csv in {folder}; give the folder of a run made with logger=csv")
    metrics = read_metrics(metrics_files(files[-1].parent), ".+").series
    if not metrics:
        raise ValueError(f"{files[-1]} holds no metrics yet; wait for the first step")
    return metrics


def draw_entropy(axis: Any, metrics: dict[str, Series]) -> None:
    draw_rollouts(axis, metrics, "entropy/mean", "entropy of the policy (nats per token)")
    if "control/target" in metrics:
        target = metrics["control/target"].last
        axis.axhspan(target * (1 - BAND), target * (1 + BAND), color="0.85", zorder=0, label=f"target ± {BAND:.0%}")
        axis.axhline(target, color="0.4", linewidth=1, linestyle=(0, (2, 2)), zorder=1)
    draw_turns(axis, metrics)
    axis.set_ylim(bottom=0)
    legend(axis)


def draw_turns(axis: Any, metrics: dict[str, Series]) -> None:
    """Where answers have several turns, the running mean of each of the first, by the names of their metrics."""
    turns = sorted(name for name in metrics if name.startswith(TURN))
    if turns and axis.lines:
        axis.lines[-1].set_label("mean")
    for index, name in enumerate(turns, 1):
        style = {"color": COLOURS[index % 6], "linestyle": DASHES[index % 6]}
        axis.plot(metrics[name].steps, smooth(metrics[name].values), **style, label=name.removeprefix("entropy/"))


def draw_rollouts(axis: Any, metrics: dict[str, Series], metric: str, title: str) -> None:
    """Each rollout faintly, their running mean over it."""
    frame(axis, title)
    if metric in metrics:
        logged = metrics[metric]
        axis.plot(logged.steps, logged.values, color=COLOURS[0], alpha=0.25, linewidth=0.8)
        axis.plot(logged.steps, smooth(logged.values), color=COLOURS[0], linestyle=DASHES[0])
    legend(axis)


def draw_scores(axis: Any, metrics: dict[str, Series]) -> None:
    """Evaluations, with their intervals."""
    frame(axis, "evaluation")
    scores = [n for n in sorted(metrics) if n.startswith("eval/") and "@" in n and not n.endswith(("_low", "_high"))]
    for index, name in enumerate(scores):
        style = {"color": COLOURS[index % 6], "linestyle": DASHES[index % 6], "marker": MARKERS[index % 6]}
        score, low, high = (metrics.get(f"{name}{end}") for end in ("", "_low", "_high"))
        assert score is not None
        axis.plot(score.steps, score.values, **style, markersize=4, label=name.removeprefix("eval/"))
        if low and high:
            axis.fill_between(low.steps, low.values, high.values, color=COLOURS[index % 6], alpha=0.15, linewidth=0)
    axis.set_ylim(bottom=0)
    legend(axis)


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
