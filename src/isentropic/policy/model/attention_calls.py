"""Attention of rows that lie end to end, forwards and backwards: flash attention, or a call for each row."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

WIDEST = 256  # head dimension of torch's flash attention, which takes multiples of 8

Heads = Float[Tensor, "L H D"]
Keys = Float[Tensor, "M K D"]
Starts = Int[Tensor, " E"]
Reading = tuple[slice, list[slice]]  # tokens of a row, and all that they read: themselves at the end


def flash(query: Heads, key: Keys, value: Keys) -> bool:
    """Whether torch's flash attention takes it, which knows rows end to end and 16 bits only."""
    size = query.shape[-1]
    fits = size % 8 == 0 and size <= WIDEST and key.shape[-1] == value.shape[-1] == size
    return query.is_cuda and query.dtype in (torch.bfloat16, torch.float16) and fits


def read(
    query: Heads, key: Keys, value: Keys, own: Starts, seen: Starts, longest: int, most: int, causal: bool, scale: float
) -> tuple[Heads, Float[Tensor, "H L"]]:
    """By flash attention: queries of row i lie at own[i] to own[i + 1], the keys that they read at those of seen."""
    settings = (own, seen, longest, most, 0.0, causal, False)
    outcome = torch.ops.aten._flash_attention_forward(query, key, value, *settings, scale=scale)
    return outcome[0].contiguous(), outcome[1]


def slopes(
    gradient: Heads, query: Heads, key: Keys, value: Keys, out: Heads, lse: Float[Tensor, "H L"], own: Starts,
    seen: Starts, longest: int, most: int, causal: bool, scale: float,
) -> tuple[Heads, Keys, Keys]:  # fmt: skip
    """Where a query reads other keys too, `out` and `lse` are of all: then these are the slopes by way of its part."""
    without_dropout = torch.zeros(2, dtype=torch.uint64, device=query.device), torch.empty(0, device=query.device)
    settings = (own, seen, longest, most, 0.0, causal, *without_dropout)
    heads = (gradient.contiguous(), query, key, value, out, lse)
    found = torch.ops.aten._flash_attention_backward(*heads, *settings, scale=scale)
    return found[0].contiguous(), found[1].contiguous(), found[2].contiguous()


def one_by_one(query: Heads, key: Keys, value: Keys, readings: list[Reading], scale: float) -> Heads:
    """A call for each row: for CPUs, fp32 and odd head dimensions."""
    grouped = query.shape[1] != key.shape[1]
    out = query.new_empty(*query.shape[:2], value.shape[-1])
    for own, seen in readings:
        q, k, v = (x.transpose(0, 1)[None] for x in (query[own], joined(key, seen), joined(value, seen)))
        square = q.shape[2] == k.shape[2]
        mask = None if square else reach(q.shape[2], k.shape[2], q.device)
        part = scaled_dot_product_attention(q, k, v, mask, is_causal=square, scale=scale, enable_gqa=grouped)
        out[own] = part[0].transpose(0, 1)
    return out


def slopes_one_by_one(
    gradient: Heads, query: Heads, key: Keys, value: Keys, readings: list[Reading], scale: float
) -> tuple[Heads, Keys, Keys]:
    """By the formula, as an operator's own backward pass has no autograd to ask."""
    shares = query.shape[1] // key.shape[1]  # query heads of one key head
    total = [x.new_zeros(x.shape, dtype=torch.float32) for x in (query, key, value)]
    for own, seen in readings:
        g, q = (x[own].float().unflatten(1, (-1, shares)) for x in (gradient, query))
        k, v = joined(key, seen).float(), joined(value, seen).float()
        scores = torch.einsum("lhsd,mhd->hslm", q, k) * scale
        p = scores.masked_fill(~reach(scores.shape[2], scores.shape[3], scores.device), -torch.inf).softmax(-1)
        slope = torch.einsum("lhsd,mhd->hslm", g, v)
        slope = scale * p * (slope - (slope * p).sum(-1, keepdim=True))
        total[0][own] = torch.einsum("hslm,mhd->lhsd", slope, k).flatten(1, 2)
        lengths = [place.stop - place.start for place in seen]
        for x, part in (1, torch.einsum("hslm,lhsd->mhd", slope, q)), (2, torch.einsum("hslm,lhsd->mhd", p, g)):
            for place, piece in zip(seen, part.split(lengths), strict=True):
                total[x][place] += piece
    return total[0].to(query.dtype), total[1].to(key.dtype), total[2].to(value.dtype)


def joined(x: Tensor, places: list[slice]) -> Tensor:
    return torch.cat([x[place] for place in places])


def reach(own: int, seen: int, device: torch.device) -> Bool[Tensor, "L M"]:
    """Whether a token reads another: the last of both is the same one."""
    return torch.ones(own, seen, dtype=torch.bool, device=device).tril(seen - own)


def readings(starts: Starts, copies: Int[Tensor, " C"] | None, copy_starts: Int[Tensor, " A1"] | None) -> list[Reading]:
    """Each row reads itself, and answers, which are the last rows, their prompt before that."""
    rows = [slice(*edges) for edges in pairwise(starts.tolist())]
    if copies is None or copy_starts is None:
        return [(own, [own]) for own in rows]
    first = [int(place) for place in copies[copy_starts[:-1].long()]]
    read = [slice(at, at + end - begin) for at, (begin, end) in zip(first, pairwise(copy_starts.tolist()), strict=True)]
    alone = len(rows) - len(read)
    return [(own, [own]) for own in rows[:alone]] + [
        (own, [prompt, own]) for own, prompt in zip(rows[alone:], read, strict=True)
    ]
