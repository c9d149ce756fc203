"""Evaluates the policy before the first rollout and after the last; in between, trainer.val_check_interval does."""

from lightning import Callback, LightningModule, Trainer

from isentropic.callbacks.run import earlier_metrics, policy_of
from isentropic.runs.metrics import read_metrics


class Evaluate(Callback):
    """Each policy once, also when a run goes on from a checkpoint."""

    def __init__(self) -> None:
        self.evaluated: int | None = None  # rollouts behind the policy that was evaluated last

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # in one answer for all ranks, as they evaluate together
        rollouts = policy_of(pl_module).rollouts
        missed = trainer.is_global_zero and missing(trainer, rollouts)
        if rollouts == 0 or trainer.strategy.reduce_boolean_decision(missed, all=False):
            self.evaluate(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.evaluate(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.evaluated = policy_of(pl_module).rollouts

    def evaluate(self, trainer: Trainer, module: LightningModule) -> None:
        """As the training loop does between two batches; there is no public call for it."""
        if not trainer.enable_validation or self.evaluated == policy_of(module).rollouts:
            return
        connector = trainer._logger_connector  # pyright: ignore[reportPrivateUsage]
        first = connector._first_loop_iter  # pyright: ignore[reportPrivateUsage]
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
        connector._first_loop_iter = first  # pyright: ignore[reportPrivateUsage]


def missing(trainer: Trainer, step: int) -> bool:
    """Was this run stopped between a rollout's checkpoint and its evaluation? Its earlier metrics tell.

    Where there are none, as beside a checkpoint that was copied, it is evaluated here.
    """
    every, earlier = trainer.val_check_batch, earlier_metrics(trainer)
    if not isinstance(every, int) or step % every:
        return False
    return not earlier or not any(step in scores.steps for scores in read_metrics(earlier, "eval/.+").series.values())
