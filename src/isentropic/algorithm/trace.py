"""An algorithm on one batch, step by step, and what each of its parts read: for those who look, not for training.

seen = trace(algorithm, batch, now, Vitals(entropy=0.3, progress=0.0))
seen.loss, seen.tokens["gradient"], seen.reads["credit stare"]
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

import torch

from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.clipping import Bounds
from isentropic.algorithm.diagnostics import affected, describe, micro_batch_metrics, quadrants, rollout_metrics, shares
from isentropic.batch import Credit, Drive, Mask, PerToken, Rows, ScoredBatch, TokenStats, Vitals
from isentropic.reductions import totals

_reader: list[set[str]] = []  # the innermost part that is being watched


@dataclass(frozen=True)
class Trace:
    """Everything on the way to one loss. Labels of parts are their folder and, for rules and penalties, their name."""

    loss: float
    drive: Drive
    credit: Credit
    tokens: dict[str, PerToken]  # by column, from advantage to gradient
    rules: dict[str, dict[str, float]]  # by credit rule, what it did
    affected: dict[str, Mask]  # by credit rule, the tokens it scaled, dropped, or gave a kl_weight
    quadrants: dict[str, Mask]
    clipped: dict[str, Mask]  # by side
    metrics: dict[str, float]
    reads: dict[str, set[str]]  # by part, such as batch.reward, now.logp, drive.up
    attached: set[str]  # fields of the credit and the bounds that carry gradient; there should be none


def trace(algorithm: Algorithm, batch: ScoredBatch, now: TokenStats, vitals: Vitals) -> Trace:
    """One optimizer step, of all rows in one micro-batch. `now` is the policy at the update. Moves the controller.

    Raises ValueError for a clipping or penalty that reads of `now` what an update does not know.
    """
    drive = algorithm.control.update(vitals)
    watched, reads = (_watch(batch, "batch"), _watch(now, "now"), _watch(drive, "drive")), dict[str, set[str]]()
    with _reading(reads, "advantage"):
        advantages = algorithm.advantage(watched[0])
    credit, rules, affected_by, tokens = Credit.initial(advantages, batch.mask), dict[str, dict[str, float]](), {}, {}
    sets = quadrants(advantages, now.logp, now.entropy, batch.mask)
    everything = [torch.arange(len(batch.mask), device=batch.mask.device)]
    tokens["advantage"] = advantages
    for name, rule in algorithm.credit.items():
        before = credit
        with torch.no_grad(), _reading(reads, f"credit {name}"):
            credit = algorithm.apply(rule, credit, watched[1], watched[0], watched[2], everything)
        tokens[f"weight {name}"] = weight(before, credit)
        affected_by[name] = affected(before, credit) & batch.mask
        rules[name] = _deeds(before, credit, sets, batch.mask)
    tokens |= {
        "weight": weight(Credit.initial(advantages, batch.mask), credit),
        "kept": credit.mask.to(now.logp.dtype),
    }
    tokens |= {"kl_weight": credit.kl_weight, "credit": credit.advantages}
    seen = Trace(0.0, drive, credit, tokens, rules, affected_by, sets, {}, {}, reads, set())
    return _charge(algorithm, batch, now, drive, seen)


def _charge(algorithm: Algorithm, batch: ScoredBatch, now: TokenStats, drive: Drive, seen: Trace) -> Trace:
    logp, unknown = now.logp.detach().clone().requires_grad_(), torch.full_like(now.logp, torch.nan)
    entropy = now.entropy.detach().clone().requires_grad_() if algorithm.needs_entropy_gradient else unknown
    known, credit, counts = TokenStats(logp, entropy, unknown), seen.credit, totals(seen.credit.mask)
    watched = _watch(known, "now"), _watch(batch, "batch"), _watch(drive, "drive")
    with _reading(seen.reads, "clipping"):
        ratio = algorithm.ratio(torch.where(credit.mask, logp - batch.old_logp, 0), credit.mask)
        bounds = algorithm.clipping(*watched)
    tokens: dict[str, PerToken] = {"ratio": ratio.detach().expand_as(logp)} | limits(bounds, logp)
    tokens["surrogate"] = bounds.surrogate(ratio, credit).detach()
    for name, penalty in algorithm.penalty.items():
        with _reading(seen.reads, f"penalty {name}"):
            tokens[f"penalty {name}"] = penalty(credit, *watched).detach()
    _check(seen.reads, algorithm)
    loss, metrics = algorithm.loss(known, batch, credit, drive, counts)
    metrics |= micro_batch_metrics(loss, logp, batch, now.sensitivity, credit, counts)
    metrics = describe(batch, seen.tokens["advantage"]) | rollout_metrics([metrics])
    loss.backward()
    tokens["gradient"] = torch.zeros_like(logp) if logp.grad is None else logp.grad
    if algorithm.needs_entropy_gradient:
        tokens["gradient of entropy"] = torch.zeros_like(logp) if entropy.grad is None else entropy.grad
    clipped = {side: found & credit.mask for side, found in bounds.clipped(ratio.detach(), credit).items()}
    held = {f"credit.{name}": value for name, value in vars(credit).items()}
    held |= {f"bounds.{name}": value for name, value in vars(bounds).items()}
    tensors = {name: value for name, value in held.items() if isinstance(value, torch.Tensor) and value is not logp}
    attached = {name for name, value in tensors.items() if value.requires_grad}
    done = replace(seen, attached=attached)
    return replace(done, loss=loss.item(), tokens=seen.tokens | tokens, clipped=clipped, metrics=metrics)


def weight(before: Credit, after: Credit) -> PerToken:
    """What rules multiplied the advantages with; not finite where they made something of nothing."""
    return torch.where(before.advantages == after.advantages, 1, after.advantages / before.advantages)


def _deeds(before: Credit, after: Credit, sets: dict[str, Mask], mask: Mask) -> dict[str, float]:
    """Numbers of tokens by what was done to them, the range of weights, and shares of each set."""
    weights = weight(before, after)[after.mask]
    counts = {
        "scaled": (after.advantages != before.advantages) & after.mask,
        "dropped": before.mask & ~after.mask,
        "tied": (after.kl_weight != before.kl_weight) & after.mask,
    }
    found = {name: float(tokens.sum()) for name, tokens in counts.items()}
    if len(weights):
        found |= {"smallest weight": float(weights.min()), "largest weight": float(weights.max())}
    among = shares(affected(before, after), sets, mask)
    return found | {f"share of {name or 'tokens'}": float(value) for name, value in among.items()}


def limits(bounds: Bounds, like: PerToken) -> dict[str, PerToken]:
    """Whatever numbers the bounds hold: low, high and ceiling of PPO's, per token."""
    values = {f.name: getattr(bounds, f.name) for f in fields(bounds)} if is_dataclass(bounds) else {}
    numbers = {name: value for name, value in values.items() if isinstance(value, int | float | torch.Tensor)}
    return {name: torch.as_tensor(value, dtype=like.dtype).detach().expand_as(like) for name, value in numbers.items()}


def _check(reads: dict[str, set[str]], algorithm: Algorithm) -> None:
    for part, names in reads.items():
        seam, _, name = part.partition(" ")
        reads_entropy = seam == "penalty" and algorithm.penalty[name].needs_entropy
        hidden = {"now.sensitivity"} if reads_entropy else {"now.sensitivity", "now.entropy"}
        if seam in ("clipping", "penalty") and names & hidden:
            raise ValueError(
                f"{part} reads {min(names & hidden)}, which an update does not know; read that of the rollout from "
                "`batch`, or set needs_entropy = True on a penalty that reads now.entropy"
            )


@contextmanager
def _reading(reads: dict[str, set[str]], part: str) -> Generator[None]:
    _reader.append(reads.setdefault(part, set()))
    try:
        yield
    finally:
        _reader.pop()


def _watch(record: Rows | Drive, name: str) -> Any:
    """The same record, of a class that notes which of its fields are read."""
    return _watched(type(record), name)(**vars(record))


@cache
def _watched(kind: type[Rows | Drive], name: str) -> Any:
    names = {f.name for f in fields(kind)}

    def noted(self: Any, attribute: str) -> Any:
        if attribute in names and _reader:
            _reader[-1].add(f"{name}.{attribute}")
        return object.__getattribute__(self, attribute)

    def cut(self: Any, rows: Any) -> Any:
        return _watch(kind(**vars(self))[rows], name)  # pyright: ignore[reportIndexIssue]

    return type(kind.__name__, (kind,), {"__getattribute__": noted, "__getitem__": cut})
