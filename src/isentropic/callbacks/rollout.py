"""What came back from the sampler, before the policy learns from it."""

import torch
from lightning import Callback, LightningModule, Trainer
from rich import print

from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import rollouts_of
from isentropic.reductions import masked_mean


class RolloutReport(Callback):
    """Logs what was asked and what is learnt from, and says when that is less than was wanted."""

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: RolloutBatch, batch_idx: int
    ) -> None:
        report = rollouts_of(trainer).report
        pl_module.log_dict(report | describe(batch))
        if report["rollout/filled"] < 1 and trainer.is_global_zero:
            print(
                f"rollout {batch_idx + 1}: {report['rollout/filled']:.0%} of the groups wanted were kept after "
                f"{report['rollout/tries']:.0f} tries; training on what there is"
            )


def describe(batch: RolloutBatch) -> dict[str, float]:
    """Means over the rows of all ranks."""
    rows = {
        "reward": batch.reward,
        "correct": batch.correct.float(),
        "length": batch.mask.sum(-1).float(),
        "truncated": batch.truncated.float(),
    }
    everything = torch.ones_like(batch.correct)
    return {f"rollout/{name}": float(masked_mean(values, everything)) for name, values in rows.items()}
