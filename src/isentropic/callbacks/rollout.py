"""What came back from the sampler, before the policy learns from it."""

from lightning import Callback, Trainer
from rich import print

from isentropic.policy.module import PolicyModule
from isentropic.rollout.datamodule import RolloutDataModule
from isentropic.tensors import group_mean, masked_mean
from isentropic.types import RolloutBatch


class RolloutReport(Callback):
    """Logs rewards, lengths and groups of each rollout, and says when it is smaller than asked for."""

    def on_train_batch_start(self, trainer: Trainer, pl_module: PolicyModule, batch: RolloutBatch, batch_idx: int) -> None:
        data: RolloutDataModule = trainer.datamodule  # pyright: ignore
        report = data.report | describe(batch)
        pl_module.log_dict(report)
        if report["rollout/filled"] < 1 and trainer.is_global_zero:
            print(
                f"rollout {pl_module.rollouts + 1}: {report['rollout/filled']:.0%} of the completions wanted were kept "
                f"after {report['rollout/tries']:.0f} tries; training on these"
            )


def describe(batch: RolloutBatch) -> dict[str, float]:
    """Means over all rows of all ranks; all_right and all_wrong are shares of rows whose group teaches nothing."""
    right = group_mean(batch.correct.float(), batch.group)
    rows = {
        "reward": batch.reward,
        "correct": batch.correct.float(),
        "length": batch.mask.sum(-1).float(),
        "truncated": batch.truncated.float(),
        "all_right": (right == 1).float(),
        "all_wrong": (right == 0).float(),
    }
    everything = batch.mask.new_ones(len(batch.mask))
    return {f"rollout/{name}": masked_mean(values, everything).item() for name, values in rows.items()}
