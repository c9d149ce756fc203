"""One optimizer step's gradient, a micro-batch at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.diagnostics import micro_batch_metrics
from isentropic.batch import (
    Credit,
    Drive,
    EntropyMode,
    Mask,
    Metrics,
    PerToken,
    RolloutBatch,
    ScoredBatch,
    TokenStats,
    Totals,
)
from isentropic.policy.batching.micro_batches import MicroBatch
from isentropic.policy.model.language_model import LanguageModel
from isentropic.reductions import totals

Source = Literal["policy", "sampler"]


class UpdateResult(NamedTuple):
    """One optimizer step's rows, on this rank, with what the algorithm made of them."""

    batch: ScoredBatch
    credit: Credit
    now: TokenStats  # of each token in its own forward of this step
    affected: dict[str, Mask]  # by credit rule, the tokens it scaled, dropped, or gave a kl_weight
    metrics: Metrics


def scored(batch: RolloutBatch, old: TokenStats, ref_logp: PerToken) -> ScoredBatch:
    """The rollout with log-probs, entropies and sensitivities of the policy before any update."""
    rollout = {f.name: getattr(batch, f.name) for f in fields(RolloutBatch)}
    stats = {f"old_{f.name}": getattr(old, f.name) for f in fields(TokenStats)}
    return ScoredBatch(**rollout, **stats, ref_logp=ref_logp)


def reuses_update_forward(skip_old_logp_forward: bool, updates: int, algorithm: Algorithm, early_logp: Source) -> bool:
    """Whether a rollout's only update also gives old log-probs, as nothing needs them earlier or the sampler's do."""
    return skip_old_logp_forward and updates == 1 and (early_logp == "sampler" or not algorithm.reads_policy)


def check_early_logp(early_logp: Source, skip_old_logp_forward: bool, updates: int, algorithm: Algorithm) -> Source:
    """As it is. Raises ValueError where a sampler's log-probs cannot stand for a forward before the update."""
    if early_logp == "policy":
        return early_logp
    if not skip_old_logp_forward or updates > 1:
        raise ValueError(
            "policy.early_logp=sampler spares the forward before a rollout's only update, and here are "
            f"{updates} with policy.skip_old_logp_forward={str(skip_old_logp_forward).lower()}; take "
            "policy.optimization.mini_batch=${rollout.batch_size} and true, or policy.early_logp=policy"
        )
    if more := algorithm.reads_more_than_logp:
        raise ValueError(
            f"policy.early_logp=sampler leaves log-probs alone to read before the update, and algorithm.{more[0]} "
            "reads more of the policy then (a correction of the sampler that stands last does not); take "
            "policy.early_logp=policy"
        )
    return early_logp


def told(batch: RolloutBatch) -> TokenStats:
    """The sampler's log-probs, and surprisals as entropies, which they are on average; ValueError if any is unknown."""
    unknown = int((batch.sampler_logp.isnan() & batch.mask).sum())
    if unknown:
        raise ValueError(
            f"policy.early_logp=sampler found no log-prob of the sampler on {unknown} tokens; take "
            "policy.early_logp=policy"
        )
    return TokenStats(batch.sampler_logp, -batch.sampler_logp, torch.full_like(batch.sampler_logp, torch.nan))


def unread(batch: ScoredBatch) -> TokenStats:
    """Zeros for all tokens, [B, S], to be filled by `place`."""
    return TokenStats(*torch.zeros(3, *batch.mask.shape, device=batch.mask.device))


def place(stats: TokenStats, micro: MicroBatch, among: TokenStats) -> TokenStats:
    """A micro-batch's values at its rows among those of all, without a gradient; a dummy's nowhere."""
    if micro.real:
        for f in fields(TokenStats):
            getattr(among, f.name)[micro.rows] = getattr(stats, f.name).detach()
    return among


@dataclass(frozen=True)
class Update:
    """With `reuse_forward` the batch comes with old log-probs unknown: the forward of each micro-batch gives them."""

    policy: LanguageModel
    algorithm: Algorithm
    temperature: float  # that of the rollout, which divides the logits
    sharded_gradients: bool
    reuse_forward: bool
    backward: Callable[[Tensor], None]

    def __call__(
        self,
        batch: ScoredBatch,
        advantages: PerToken,
        now: TokenStats | None,  # None: by the forward of the only micro-batch
        drive: Drive,
        micros: Sequence[MicroBatch],
    ) -> UpdateResult:
        """Adds up the gradient of all micro-batches; stepping is the caller's.

        All ranks call it, with as many micro-batches.
        """
        rows = [micro.rows for micro in micros if micro.real]
        trained = unread(batch)
        with self.policy.mixed_precision():
            read = None
            if now is None:
                read = self.policy.token_stats(batch, micros[0], self.temperature, "value")
                now = place(read, micros[0], unread(batch))
            without_late = self.reuse_forward
            assigned = self.algorithm.assign_credit(advantages, now, batch, drive, rows, without_late=without_late)
            credit, count, sums = assigned.credit, totals(assigned.credit.mask), dict[str, Tensor | float]()
            for index, micro in enumerate(micros):
                self.sync_gradients(self.sharded_gradients or index == len(micros) - 1)
                part = credit[micro.rows] if micro.real else credit[micro.rows].drop(credit.mask[micro.rows])
                stats, metrics = self.learn(batch, now, micro, part, drive, count, read)
                sums = {name: sums.get(name, 0.0) + value for name, value in metrics.items()}
                place(stats, micro, trained)
        if self.reuse_forward:
            batch, now = scored(batch, trained, batch.ref_logp), trained
            assigned = self.algorithm.followed(assigned, self.algorithm.late, now, batch, drive, rows)
        else:
            trained = TokenStats(trained.logp, now.entropy, now.sensitivity)
        sums = self.algorithm.credit_metrics(assigned, advantages, now, batch, drive) | sums
        sums |= self.algorithm.precision_metrics(assigned, now, batch)
        return UpdateResult(batch, assigned.credit, trained, assigned.affected, sums)

    def learn(
        self,
        batch: ScoredBatch,
        now: TokenStats,
        micro: MicroBatch,
        credit: Credit,
        drive: Drive,
        count: Totals,
        read: TokenStats | None,
    ) -> tuple[TokenStats, Metrics]:
        """Forward, unless it is `read` already, and backward of a micro-batch: adds its gradient to the step's."""
        entropy: EntropyMode = "gradient" if self.algorithm.needs_entropy_gradient else "none"
        wanted: EntropyMode = "value" if self.reuse_forward else entropy
        stats = self.policy.token_stats(batch, micro, self.temperature, wanted) if read is None else read
        rows, sensitivity, known = batch[micro.rows], now.sensitivity[micro.rows], stats
        if self.reuse_forward or read is not None:
            unknown = torch.full_like(stats.entropy, torch.nan)
            known = TokenStats(stats.logp, unknown, unknown)
        if self.reuse_forward:
            old = TokenStats(stats.logp.detach(), stats.entropy, stats.sensitivity)
            rows, sensitivity = scored(rows, old, rows.ref_logp), stats.sensitivity
            credit = self.algorithm.corrected(credit, rows)
        loss, metrics = self.algorithm.loss(known, rows, credit, drive, count)
        metrics |= micro_batch_metrics(loss, stats.logp, rows, sensitivity, credit, count)
        self.backward(loss)
        return stats, metrics | {"policy/loss": loss.detach()}

    def sync_gradients(self, now: bool) -> None:
        """Whether FSDP reduces gradients over ranks in the next backward pass; of others, nothing changes."""
        if isinstance(self.policy, FSDPModule):
            self.policy.set_requires_gradient_sync(now)
