"""How long each phase of a step takes, and how many tokens are made in it."""

import time
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT

from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import policy_of, rollouts_of, seconds_of


class Throughput(Callback):
    """A step is sampling, sleep, update, sync. Evaluation is none of them.

    Listed after the callback of the sampler: what that one takes is taken out of sampling and update. The policy's own
    clock tells what of the update is reading the rollout and what its optimizer takes.
    """

    def __init__(self) -> None:
        self.step_began = self.update_began = self.evaluation_began = time.monotonic()
        self.sampling = 0.0
        self.spent = {"tokens": 0.0, "seconds": 0.0}  # since the first rollout, over all parts of a resumed run

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.step_began = time.monotonic()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.step_began = time.monotonic()

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: RolloutBatch, batch_idx: int
    ) -> None:
        self.update_began = time.monotonic()
        self.sampling = self.update_began - self.step_began

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        if pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)
        now = time.monotonic()
        sampler = seconds_of(trainer)
        seconds = self.sampling + now - self.update_began
        pl_module.log_dict(
            {
                "throughput/sample_seconds": self.sampling - sampler.sleep,
                "throughput/update_seconds": now - self.update_began - sampler.sync - sampler.wait,
                "throughput/step_seconds": seconds,
            }
        )
        parts = policy_of(pl_module).clock.seconds()
        pl_module.log_dict({f"throughput/{name}_seconds": value for name, value in parts.items()})
        self.spent["tokens"] += rollouts_of(trainer).report["rollout/tokens"]
        self.spent["seconds"] += seconds
        pl_module.log_dict({f"throughput/{name}": value for name, value in self.spent.items()})
        tokens = float(batch.mask.sum())  # of this rank
        pl_module.log("throughput/tokens_per_second", tokens / seconds, sync_dist=True, reduce_fx="sum")
        self.step_began = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        return dict(self.spent)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.spent = dict(state_dict)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.evaluation_began = time.monotonic()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.step_began += time.monotonic() - self.evaluation_began
