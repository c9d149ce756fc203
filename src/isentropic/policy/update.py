"""The gradient of one optimizer step, a micro-batch at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.diagnostics import of_micro_batch
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


class Learnt(NamedTuple):
    batch: ScoredBatch
    credit: Credit
    now: TokenStats  # each token as it was when it was learnt from
    acted: dict[str, Mask]  # by credit rule, the tokens it scaled, dropped or tied
    metrics: Metrics


def scored(batch: RolloutBatch, before: TokenStats, ref_logp: PerToken) -> ScoredBatch:
    """The rollout and what the policy thought of it before any update."""
    rollout = {f.name: getattr(batch, f.name) for f in fields(RolloutBatch)}
    old = {f"old_{f.name}": getattr(before, f.name) for f in fields(TokenStats)}
    return ScoredBatch(**rollout, **old, ref_logp=ref_logp)


@dataclass(frozen=True)
class Update:
    """With `once`, the batch comes unread: each micro-batch is read by the forward that it is learnt from.

    That holds for the first update of a rollout alone, of an algorithm that reads the policy in no earlier step.
    """

    policy: LanguageModel
    algorithm: Algorithm
    temperature: float
    sharded_gradients: bool
    once: bool
    backward: Callable[[Tensor], None]

    def __call__(
        self, batch: ScoredBatch, advantages: PerToken, now: TokenStats, drive: Drive, micros: Sequence[MicroBatch]
    ) -> Learnt:
        rows = [micro.rows for micro in micros if micro.real]
        acted: dict[str, Mask] = {}
        credit, metrics = self.algorithm.assign(advantages, now, batch, drive, rows, acted)
        count, sums = totals(credit.mask), dict[str, Tensor | float]()
        seen = TokenStats(torch.zeros_like(now.logp), now.entropy, now.sensitivity)
        if self.once:
            seen = TokenStats(*torch.zeros(3, *batch.mask.shape, device=batch.mask.device))
        with self.policy.mixed_precision():
            for index, micro in enumerate(micros):
                self.sync_gradients(self.sharded_gradients or index == len(micros) - 1)
                part = credit[micro.rows] if micro.real else credit[micro.rows].drop(credit.mask[micro.rows])
                stats, found = self.learn(batch, now, micro, part, drive, count)
                sums = {name: sums.get(name, 0.0) + value for name, value in found.items()}
                if micro.real:
                    for f in fields(TokenStats) if self.once else fields(TokenStats)[:1]:
                        getattr(seen, f.name)[micro.rows] = getattr(stats, f.name).detach()
        if self.once:  # the same credit; but what is measured of it asks what the policy thought
            batch = scored(batch, seen, batch.ref_logp)
            credit, metrics = self.algorithm.assign(advantages, seen, batch, drive, rows, acted)
        return Learnt(batch, credit, seen, acted, metrics | sums)

    def learn(
        self,
        batch: ScoredBatch,
        now: TokenStats,
        micro: MicroBatch,
        credit: Credit,
        drive: Drive,
        count: Totals,
    ) -> tuple[TokenStats, Metrics]:
        """Adds the gradient of a micro-batch to that of the step."""
        paid = any(penalty.needs_entropy for penalty in self.algorithm.penalty.values())
        wanted: EntropyMode = "value" if self.once else "gradient" if paid else "none"
        stats, rows = self.policy.token_stats(batch, micro, self.temperature, wanted), batch[micro.rows]
        sensitivity, known = now.sensitivity[micro.rows], stats
        if self.once:
            read = TokenStats(stats.logp.detach(), stats.entropy, stats.sensitivity)
            rows, sensitivity = scored(rows, read, rows.ref_logp), stats.sensitivity
            unknown = torch.full_like(stats.entropy, torch.nan)
            known = TokenStats(stats.logp, unknown, unknown)
        loss, found = self.algorithm.loss(known, rows, credit, drive, count)
        found |= of_micro_batch(loss, stats.logp, rows, sensitivity, credit, count)
        self.backward(loss)
        return stats, found | {"policy/loss": loss.detach()}

    def sync_gradients(self, now: bool) -> None:
        if isinstance(self.policy, FSDPModule):
            self.policy.set_requires_gradient_sync(now)
