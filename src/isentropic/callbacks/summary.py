"""The end of a run: one table of how good the policy was before, during and after, and the curves as a picture."""

from pathlib import Path
from statistics import fmean
from typing import Any

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.utilities import rank_zero_warn
from lightning.pytorch.utilities.types import STEP_OUTPUT
from rich.console import Console
from rich.table import Table

from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import policy_of
from isentropic.reporting.render.run_curves import curves

WATCHED = {
    "entropy/mean": "entropy",
    "rollout/reward": "reward",
    "rollout/length": "response length",
    "throughput/tokens_per_second": "tokens/s",
}


class Summary(Callback):
    """Shows what was logged, and so reads it there; keeps the few numbers it needs, across a resumed run too."""

    def __init__(self) -> None:
        self.rollouts: list[dict[str, float]] = []
        self.evaluations: list[tuple[int, dict[str, float]]] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            print(what_learns(pl_module), flush=True)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        self.rollouts.append(
            {name: float(trainer.callback_metrics[name]) for name in WATCHED if name in trainer.callback_metrics}
        )

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        scores = {
            name.removeprefix("eval/"): float(value)
            for name, value in trainer.callback_metrics.items()
            if name.startswith("eval/")
        }
        step = policy_of(pl_module).rollouts
        self.evaluations = [*(e for e in self.evaluations if e[0] != step), (step, scores)]

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            Console().print(table(self.rollouts, self.evaluations))

    def state_dict(self) -> dict[str, Any]:
        return {"rollouts": self.rollouts, "evaluations": self.evaluations}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rollouts, self.evaluations = state_dict["rollouts"], state_dict["evaluations"]


class Curves(Callback):
    """curves.png in the run's folder. Needs the CSV logger; without it there is nothing to draw, which it says."""

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero or trainer.fast_dev_run:  # pyright: ignore[reportAttributeAccessIssue]
            return
        for logger in trainer.loggers:
            logger.save()
        if not any(isinstance(logger, CSVLogger) for logger in trainer.loggers):
            rank_zero_warn("No curves.png without metrics.csv; add logger=csv to have both.")
            return
        try:
            curves(Path(trainer.default_root_dir))
        except Exception as error:  # what was learnt is saved, and a run is not undone for want of a font or of room
            rank_zero_warn(f"No curves.png: {type(error).__name__}: {error}")


def what_learns(module: LightningModule) -> str:
    """In which precision weights are kept and stepped decides what a learning rate means."""
    sizes = [(p.numel(), str(p.dtype).removeprefix("torch.")) for p in module.parameters()]
    kept = " and ".join(sorted({dtype for _, dtype in sizes}))
    return f"policy: {sum(n for n, _ in sizes) / 1e6:,.2f} M parameters; weights and optimizer state in {kept}"


def table(rollouts: list[dict[str, float]], evaluations: list[tuple[int, dict[str, float]]]) -> Table:
    """Rollouts are noisy, so theirs are means over the first, middle and last tenth of the run."""
    result = Table(title=f"{len(rollouts)} rollout{'s' if len(rollouts) != 1 else ''}", title_justify="left")
    for column in ("", "before", "during", "after"):
        result.add_column(column, justify="left" if not column else "right")
    chosen = before_during_after(evaluations, len(rollouts))
    names = sorted({name for _, scores in evaluations for name in scores if not name.endswith(("_low", "_high"))})
    if names:
        result.add_row("evaluated at rollout", *("" if e is None else str(e[0]) for e in chosen))
    for name in names:
        result.add_row(name, *("" if e is None else score(e[1], name) for e in chosen))
        intervals = ["" if e is None else interval(e[1], name) for e in chosen]
        if any(intervals):
            result.add_row("  95 % interval", *intervals, style="dim")
    result.add_section()
    for metric, label in WATCHED.items():
        values = [rollout[metric] for rollout in rollouts if metric in rollout]
        if values:
            result.add_row(label, *(f"{value:,.3f}" if value < 100 else f"{value:,.0f}" for value in thirds(values)))
    return result


def before_during_after(
    evaluations: list[tuple[int, dict[str, float]]], steps: int
) -> list[tuple[int, dict[str, float]] | None]:
    """The one before any rollout, the one after the last, and of the others the one nearest the middle."""
    before = next((e for e in evaluations if e[0] == 0), None)
    after = next((e for e in evaluations if e[0] == steps > 0), None)
    others = [e for e in evaluations if 0 < e[0] < steps]
    during = min(others, key=lambda e: abs(e[0] - steps / 2), default=None)
    return [before, during, after]


def score(scores: dict[str, float], name: str) -> str:
    return f"{scores[name]:.3f}" if name in scores else ""


def interval(scores: dict[str, float], name: str) -> str:
    """On a line of its own, so that three fit side by side on 80 columns."""
    low, high = f"{name}_low", f"{name}_high"
    return f"{scores[low]:.3f} - {scores[high]:.3f}" if low in scores and high in scores else ""


def thirds(values: list[float]) -> list[float]:
    width = max(1, len(values) // 10)
    middle = (len(values) - width) // 2
    return [fmean(part) for part in (values[:width], values[middle : middle + width], values[-width:])]
