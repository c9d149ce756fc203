"""The sampler's life: start, weights after each update, sleep while the policy trains; and an alarm if the two part."""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import cycle, islice
from math import isfinite
from time import perf_counter

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.types import STEP_OUTPUT

from isentropic.algorithm.diagnostics import first_turns
from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import SamplerPhases, policy_of, rollouts_of
from isentropic.distributed import average, gather
from isentropic.phases import doing
from isentropic.policy.module import PolicyModule
from isentropic.reductions import masked_mean
from isentropic.rollout.datamodule import RolloutDataModule
from isentropic.sampler import SamplerError


class WeightSync(SamplerPhases):
    """Raises SyncError, on all ranks, when log-probs say that the sampler does not hold the policy's weights."""

    def __init__(self, tolerance: float, canary_tokens: int) -> None:
        """Raises ValueError for a tolerance of 0 and for a canary too short to have a log-prob."""
        if tolerance <= 0 or canary_tokens < 2:
            raise ValueError(f"tolerance={tolerance} must be above 0 and canary_tokens={canary_tokens} at least 2")
        super().__init__()
        self.tolerance = tolerance  # mean |log-prob difference| per token, in nats
        self.canary_tokens = canary_tokens  # at most so many are scored after each sync
        self.canary: list[int] = []
        self.last: tuple[list[float], list[float]] | None = None  # both sides' scores of it at the last sync

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        with doing("the engine's start", once=True):
            rollouts_of(trainer).sampler.start()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        with doing("the first sync", once=True):
            self.sync_weights(rollouts_of(trainer), policy_of(pl_module), moved=False)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: RolloutBatch, batch_idx: int
    ) -> None:
        start = perf_counter()
        rollouts_of(trainer).sampler.sleep()
        self.seconds.sleep = perf_counter() - start
        pl_module.log("throughput/sleep_seconds", self.seconds.sleep)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        data, policy = rollouts_of(trainer), policy_of(pl_module)
        self.compare(policy)
        if data.one_step_off_policy:
            start = perf_counter()
            data.wait_for_pending()
            self.seconds.wait = perf_counter() - start
            pl_module.log("throughput/wait_seconds", self.seconds.wait)
        start = perf_counter()
        with doing("sync"):
            gap = self.sync_weights(data, policy, moved=policy.changed)
        self.seconds.sync = perf_counter() - start
        pl_module.log("throughput/sync_seconds", self.seconds.sync)
        if gap is not None:
            pl_module.log("sampler/canary_gap", gap)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING:  # there it has just been sent the weights
            rollouts_of(trainer).sampler.start()
            self.sync_weights(rollouts_of(trainer), policy_of(pl_module), moved=False)

    def sync_weights(self, data: RolloutDataModule, policy: PolicyModule, moved: bool) -> float | None:
        """Sends the weights and has both sides score a fixed sequence: the gap, or None if the sampler cannot score."""
        engine = data.sampler
        engine.wake()
        with refused(policy.model.path):
            engine.update_weights(policy.weights(engine.dtype))
        self.canary = self.canary or canary(data, self.canary_tokens)
        theirs, ours = engine.score(self.canary), policy.score(self.canary)
        if theirs is None:
            return None
        stuck = moved and self.last is not None and self.last[0] == theirs and self.last[1] != ours
        gap = sum(abs(a - b) for a, b in zip(theirs, ours, strict=True)) / len(ours)
        gap, stuck = average(torch.tensor([gap, float(stuck)], dtype=torch.float64)).tolist()
        if stuck:
            raise SyncError(
                "weights did not arrive: after an update of the policy the sampler scores a fixed sequence exactly as "
                "before it"
            )
        self.last = theirs, ours
        rounds = f"or the {engine.dtype} that it computes in rounds by more"
        self.check(gap, f"a fixed sequence, right after the weights were sent; they did not arrive, {rounds}")
        return gap

    def compare(self, policy: PolicyModule) -> None:
        """The sampler's log-probs of its own completions against the policy's reading of them, before any update.

        Tokens that an older policy drew must differ, and raise no alarm.
        """
        assert policy.last_rollout
        batch, *_ = policy.last_rollout
        known = batch.mask & ~batch.sampler_logp.isnan()
        if not masked_mean(known.float(), batch.mask) > 0:  # nor if nothing was written
            return
        difference = (batch.old_logp - batch.sampler_logp).abs()
        gap = float(masked_mean(difference, known))
        worst = gather(torch.where(known, difference, 0).max()[None]).max()
        policy.log_dict({"sampler/logp_gap": gap, "sampler/logp_gap_max": worst})
        turns = {turn: float(masked_mean(difference, known & tokens)) for turn, tokens in first_turns(batch).items()}
        policy.log_dict({f"sampler/logp_gap_{turn}": value for turn, value in turns.items() if isfinite(value)})
        fresh = known & (batch.staleness == 0)
        if masked_mean(fresh.float(), batch.mask) > 0:
            gap = float(masked_mean(difference, fresh))
            self.check(gap, "the sampler's own completions; weights, prefix cache, temperature or masks differ")

    def check(self, gap: float, where: str) -> None:
        if not gap <= self.tolerance:
            raise SyncError(
                f"sampler and policy disagree by {gap:.4g} nats per token, more than tolerance={self.tolerance}, on "
                f"{where}"
            )


class SyncError(SamplerError):
    """A sampler that does not hold the policy's weights."""


@contextmanager
def refused(path: str) -> Generator[None]:
    """Raises SyncError where the sampler's names or shapes are not the policy's."""
    try:
        yield
    except (torch.OutOfMemoryError, SyncError):
        raise
    except (ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())[:400]
        raise SyncError(
            f"the sampler did not take the policy's weights ({said}); it must hold the model of policy.model.path="
            f"{path} as it is: leave sampler.path out, or take sampler=transformers, which knows no other names"
        ) from error


def canary(data: RolloutDataModule, length: int) -> list[int]:
    """The first prompt, over and over, for as long as a prompt and its answer may be together, less one token."""
    prompt = data.prompts.encode(data.problems_of("train")[0])
    return list(islice(cycle(prompt), min(length, len(prompt) + data.decoding.max_tokens - 1)))
