"""The sampler's life: start, weights after each update, sleep while the policy trains; and an alarm if they disagree."""

from time import perf_counter

import torch
from lightning import Callback, LightningModule, Trainer

from isentropic.policy.module import PolicyModule
from isentropic.sampler import Sampler
from isentropic.tensors import masked_mean


class SamplerCallback(Callback):
    """Stops training with RuntimeError when the sampler's log-probs say that it does not hold the policy's weights."""

    def __init__(self, tolerance: float, canary_tokens: int) -> None:
        if tolerance <= 0 or canary_tokens < 2:
            raise ValueError(f"tolerance={tolerance} must be above 0 and canary_tokens={canary_tokens} at least 2")
        self.tolerance = tolerance  # mean |log-prob difference| per token, in nats
        self.canary_tokens = canary_tokens  # length of the fixed sequence that is scored after each sync
        self.sampler: Sampler | None = None  # the data module's, once started
        self.last: list[float] | None = None  # the sampler's scores at the last sync

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.start(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: PolicyModule) -> None:
        self.sync(pl_module, moved=False)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int) -> None:
        self.sampler.sleep()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: PolicyModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        self.compare(pl_module)
        start = perf_counter()
        gap = self.sync(pl_module, moved=pl_module.moved)
        pl_module.log_dict({"sampler/canary_gap": gap, "throughput/sync_seconds": perf_counter() - start})

    def on_validation_start(self, trainer: Trainer, pl_module: PolicyModule) -> None:
        if self.sampler is None:
            self.start(trainer)
            self.sync(pl_module, moved=False)

    def start(self, trainer: Trainer) -> None:
        self.sampler = trainer.datamodule.sampler
        self.sampler.start()

    def sync(self, module: PolicyModule, moved: bool) -> float:
        """Pushes the weights and scores a fixed sequence on both sides."""
        self.sampler.wake()
        self.sampler.load(module.weights())
        # a vocabulary's first ids are control tokens, on which bf16 alone moves log-probs by half a nat
        tokens = [i * 7919 % module.vocabulary for i in range(1, self.canary_tokens + 1)]
        theirs, ours = self.sampler.score(tokens), module.score(tokens)
        if theirs is None:
            return 0.0
        if moved and theirs == self.last:
            raise RuntimeError(
                "weights did not arrive: after an update of the policy the sampler scores a fixed sequence exactly as before it"
            )
        self.last = theirs
        gap = sum(abs(a - b) for a, b in zip(theirs, ours, strict=True)) / len(ours)
        self.check(gap, "a fixed sequence right after the weights were sent")
        return gap

    def compare(self, module: PolicyModule) -> None:
        """The rollout's own log-probs against the policy's reading of them, before any update."""
        assert module.seen
        batch, _ = module.seen
        known = batch.mask & ~batch.sampler_logp.isnan()
        difference = (batch.old_logp - batch.sampler_logp.nan_to_num()).abs()
        gap = masked_mean(difference, known).item()
        largest = torch.where(known, difference, 0).max()
        module.log_dict({"sampler/logp_gap": gap, "sampler/logp_gap_max": largest})
        if gap == gap:  # NaN: the sampler gave no log-probs
            self.check(gap, "its own completions; weights, prefix cache, temperature or masks differ")

    def check(self, gap: float, where: str) -> None:
        if not gap <= self.tolerance:
            raise RuntimeError(
                f"sampler and policy disagree by {gap:.4g} nats per token, more than tolerance={self.tolerance}, on {where}"
            )
