"""What the rollout stream saw while it filled the batch: tries, failures of verification."""

from typing import Any

from lightning import Callback, LightningModule, Trainer


class RolloutReport(Callback):
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        report: dict[str, float] = trainer.datamodule.stream.report  # pyright: ignore
        pl_module.log_dict(report)
        if report["rollout/filled"] < 1 and trainer.is_global_zero:
            print(f"rollout {batch_idx}: only {report['rollout/filled']:.0%} of the groups wanted were kept after {report['rollout/tries']:.0f} tries; training on these")
