"""Judges the policy before the first rollout and after the last; in between, trainer.val_check_interval does."""

from lightning import Callback, LightningModule, Trainer


class Evaluate(Callback):
    def __init__(self) -> None:
        self.judged: int | None = None  # rollouts behind the policy that was judged last

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if pl_module.rollouts == 0:
            self.judge(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.judged != pl_module.rollouts:
            self.judge(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.judged = int(pl_module.rollouts)

    def judge(self, trainer: Trainer) -> None:
        """As the training loop does between two batches; there is no public call for it."""
        if not trainer.enable_validation:
            return
        connector = trainer._logger_connector
        first = connector._first_loop_iter
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
        connector._first_loop_iter = first
