"""Choices by lot that stay the same however a step is ordered, padded, cut into micro-batches or spread over ranks."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isentropic.tensors import gather, masked_max, top_fraction
from isentropic.types import Mask, PerToken, ScoredBatch


def lots(batch: ScoredBatch, row: Int[Tensor, " N"], column: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    """A number in [0, 1) for each of these tokens, from its log-prob and place and from the tokens of its row.

    No generator: what a token draws depends on nothing but its own row. Equal rows draw alike; the log-prob makes it
    another draw after each update.
    """
    used, line = row.unique(return_inverse=True)
    place = batch.mask[used].cumsum(-1, dtype=torch.int32)
    text = torch.where(batch.mask[used], batch.tokens[used] * place, 0).sum(-1)
    bits = batch.old_logp[row, column].double().view(torch.int64)
    mixed = _mix(bits + _mix(place[line, column].long()) + _mix(_mix(text))[line])
    return (mixed & (2**53 - 1)).double() / 2**53


def _mix(x: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
    """The finalizer of SplitMix64: every bit of the result depends on every bit of x. Products wrap around."""
    x = (x ^ _shift(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ _shift(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ _shift(x, 31)


def _shift(x: Int[Tensor, "*N"], bits: int) -> Int[Tensor, "*N"]:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # without the sign


def count(mask: Mask) -> int:
    """How many tokens over all ranks."""
    return int(gather(mask.sum().double()[None]).sum())


def pick(candidates: Mask, batch: ScoredBatch, number: int) -> Mask:
    """So many of the candidates of all ranks, by lot, or all of them."""
    row, column = candidates.nonzero(as_tuple=True)
    drawn = lots(batch, row, column)[None]
    chosen = top_fraction(drawn, drawn >= 0, number / max(1, count(candidates)))[0]
    return torch.zeros_like(candidates).index_put((row, column), chosen)


def pick_largest(x: PerToken, mask: Mask, batch: ScoredBatch, number: int) -> Mask:
    """So many of the largest masked values of all ranks, with lots to decide between equals."""
    taken = top_fraction(x, mask, number / max(1, count(mask)))
    values = x[taken]
    least = -masked_max(-values, values == values)
    certain = taken & (x > least)
    return certain | pick(taken & (x == least), batch, number - count(certain))
