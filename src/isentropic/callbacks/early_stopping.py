"""Ends a run whose score on the validation split no longer gets better."""

import re
from collections.abc import Collection
from typing import Any, Literal

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch import callbacks

from isentropic.callbacks.run import earlier_metrics, policy_of
from isentropic.runs.metrics import read_metrics


class EarlyStopping(callbacks.EarlyStopping):
    """Lightning's, after each evaluation. A run that goes on waits as long as one that was never stopped.

    The run is done, with a checkpoint, and `why` says so in its status.json.
    """

    def __init__(self, monitor: str, mode: Literal["max", "min"], patience: int, min_delta: float) -> None:
        """`patience` in evaluations that do not raise the best by more than `min_delta`. Raises ValueError."""
        if patience < 1:
            raise ValueError(f"early_stopping.patience={patience} must be at least 1 evaluation")
        if min_delta < 0:
            raise ValueError(f"early_stopping.min_delta={min_delta} must not be negative")
        super().__init__(monitor, min_delta, patience, mode=mode, check_on_train_epoch_end=False)
        self.seen = -1  # rollouts behind the policy that was evaluated last
        self.why: str | None = None

    def check(self, split: str, scores: Collection[str]) -> None:
        """Raises ValueError for what is no score of an evaluation, and for a choice by the `split` test."""
        name = f"callbacks.early_stopping.monitor={self.monitor}"
        if self.monitor not in scores:
            there = ", ".join(sorted(scores)) or "none"
            raise ValueError(f"{name} is no score of an evaluation; there are {there}")
        if split == "test":
            raise ValueError(
                f"{name} would end the run by the test split, whose score would be too high; take "
                "rollout.evaluation.split=validation"
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A checkpoint is older than the evaluation of its policy, which stands in the metrics alone."""
        rollouts, found = policy_of(pl_module).rollouts, None
        if self.seen != rollouts and trainer.is_global_zero:
            series = read_metrics(earlier_metrics(trainer), re.escape(self.monitor)).series.get(self.monitor)
            found = None if series is None else dict(zip(series.steps, series.values, strict=True)).get(rollouts)
        found = trainer.strategy.broadcast(None if found is None else float(found))
        if found is not None:
            self.judge(trainer, rollouts, torch.tensor(found))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.judge(trainer, policy_of(pl_module).rollouts, trainer.callback_metrics[self.monitor].cpu())

    def judge(self, trainer: Trainer, rollouts: int, score: torch.Tensor) -> None:
        """Each evaluation once; the same on all ranks, as the score is."""
        if self.seen == rollouts:
            return
        self.seen, (stop, _) = rollouts, self._evaluate_stopping_criteria(score)
        if stop and rollouts < trainer.num_training_batches:
            trainer.should_stop = True
            self.why = (
                f"callbacks.early_stopping: {self.monitor} is {float(score):.4g} after {rollouts} rollouts, and did "
                f"not pass {float(self.best_score):.4g} in the last {self.wait_count} evaluations"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"best_score": self.best_score, "wait_count": self.wait_count, "seen": self.seen}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """But for the patience, which is that of the settings."""
        self.best_score, self.wait_count = state_dict["best_score"].cpu(), state_dict["wait_count"]
        self.seen = state_dict["seen"]
