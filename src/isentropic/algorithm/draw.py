"""Choices by lot that stay the same however a step is ordered, padded, cut into micro-batches or spread over ranks."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isentropic.tensors import gather, masked_max, top_fraction
from isentropic.types import Mask, PerToken, ScoredBatch

Lots = Float[Tensor, "B S"]


def lots(batch: ScoredBatch) -> Lots:
    """A number in [0, 1) for each token of the mask, from its id, log-prob and place, and from all of its row.

    No generator: what a token draws depends on nothing but its own row. Equal rows draw alike; the log-prob makes it
    another draw after each update. Defined on the mask only.
    """
    place = batch.mask.cumsum(-1)
    own = _mix(_mix(batch.old_logp.double().view(torch.int64)) + batch.tokens) + place
    own = torch.where(batch.mask, _mix(own), 0)
    mixed = _mix(own + _mix(own.sum(-1, keepdim=True)))
    return (mixed & (2**53 - 1)).double() / 2**53


def _mix(x: Int[Tensor, "B #S"]) -> Int[Tensor, "B #S"]:
    """The finalizer of SplitMix64: every bit of the result depends on every bit of x. Products wrap around."""
    x = (x ^ _shift(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ _shift(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ _shift(x, 31)


def _shift(x: Int[Tensor, "B #S"], bits: int) -> Int[Tensor, "B #S"]:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # without the sign


def count(mask: Mask) -> int:
    """How many tokens over all ranks."""
    return int(gather(mask.sum().double()[None]).sum())


def pick(candidates: Mask, lots: Lots, number: int) -> Mask:
    """So many of the candidates of all ranks, or all of them: those with the largest lots."""
    return top_fraction(lots, candidates, number / max(1, count(candidates)))


def pick_largest(x: PerToken, mask: Mask, lots: Lots, number: int) -> Mask:
    """So many of the largest masked values of all ranks, with lots to decide between equals."""
    taken = top_fraction(x, mask, number / max(1, count(mask)))
    equals = taken & (x == -masked_max(-x, taken))
    certain = taken & ~equals
    return certain | pick(equals, lots, number - count(certain))
