"""Choices by lot that stay the same however a step is ordered, padded, cut into micro-batches or spread over ranks."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isentropic.batch import Mask, PerToken, ScoredBatch
from isentropic.distributed import gather
from isentropic.reductions import masked_max, top_fraction


def lots(batch: ScoredBatch, tokens: Mask) -> Float[Tensor, " N"]:
    """A number in [0, 1) for each of these tokens, in reading order, from its id, log-prob and place, and its row.

    No generator: what a token draws depends on nothing but its own row. Equal rows draw alike; the log-prob makes it
    another draw after each update. Defined on the mask only.
    """
    bits = batch.old_logp.float().view(torch.int32)
    whole = torch.where(batch.mask, bits, 0).sum(-1)
    row, column = tokens.nonzero(as_tuple=True)
    place = batch.mask.cumsum(-1)[row, column] - 1  # of the chosen tokens: prompts, padding and tools do not shift it
    own = _mix((bits[row, column].long() << 32) + (batch.tokens[row, column] << 16) + place)
    return (_mix(own + _mix(whole)[row]) & (2**53 - 1)).double() / 2**53


def _mix(x: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """The finalizer of SplitMix64: every bit of the result depends on every bit of x. Products wrap around."""
    x = (x ^ _shift(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ _shift(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ _shift(x, 31)


def _shift(x: Int[Tensor, " N"], bits: int) -> Int[Tensor, " N"]:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # without the sign


def count(mask: Mask) -> int:
    """How many tokens over all ranks."""
    return int(gather(mask.sum().double()[None]).sum())


def pick(candidates: Mask, batch: ScoredBatch, number: int) -> Mask:
    """So many of the candidates of all ranks, or all of them: those with the largest lots."""
    there = count(candidates)
    if there <= number:
        return candidates
    drawn = lots(batch, candidates)[None]
    chosen = top_fraction(drawn, torch.ones_like(drawn, dtype=torch.bool), number / there)
    return torch.zeros_like(candidates).masked_scatter(candidates, chosen)


def pick_largest(x: PerToken, mask: Mask, batch: ScoredBatch, number: int) -> Mask:
    """So many of the largest masked values of all ranks, with lots to decide between equals."""
    taken = top_fraction(x, mask, number / max(1, count(mask)))
    if count(taken) <= number:
        return taken
    equals = taken & (x == -masked_max(-x, taken))
    certain = taken & ~equals
    return certain | pick(equals, batch, number - count(certain))
