"""Judges the policy before the first rollout and after the last; in between, trainer.val_check_interval does."""

import csv
from pathlib import Path
from typing import Any

from lightning import Callback, LightningModule, Trainer


class Evaluate(Callback):
    """Each policy once, also when a run goes on from a checkpoint."""

    def __init__(self) -> None:
        self.judged: int | None = None  # rollouts behind the policy that was judged last

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # in one answer for all ranks, as they judge together
        missed = trainer.is_global_zero and missing(trainer, rollouts(pl_module))
        if rollouts(pl_module) == 0 or trainer.strategy.reduce_boolean_decision(missed, all=False):
            self.judge(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.judge(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.judged = rollouts(pl_module)

    def judge(self, trainer: Trainer, module: LightningModule) -> None:
        """As the training loop does between two batches; there is no public call for it."""
        if not trainer.enable_validation or self.judged == rollouts(module):
            return
        connector = trainer._logger_connector  # pyright: ignore[reportPrivateUsage]
        first = connector._first_loop_iter  # pyright: ignore[reportPrivateUsage]
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
        connector._first_loop_iter = first  # pyright: ignore[reportPrivateUsage]


def missing(trainer: Trainer, step: int) -> bool:
    """Was this run stopped between a rollout's checkpoint and its evaluation? Its earlier metrics tell."""
    every = trainer.val_check_batch
    parts = sorted(Path(trainer.default_root_dir).glob("metrics.*.csv"))
    if not parts or not isinstance(every, int) or step % every:
        return False
    for part in parts:
        with part.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                scored = any(value for name, value in row.items() if name and name.startswith("eval/"))
                if scored and row.get("step") and float(row["step"]) == step:
                    return False
    return True


def rollouts(module: Any) -> int:
    return int(module.rollouts)
