"""Causal attention of rows that lie end to end, without padding: no token sees another row."""

from itertools import pairwise
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.library import custom_op
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PretrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "isentropic"  # as attn_implementation of a transformers model
WIDEST = 256  # head dimension of torch's flash attention, which takes multiples of 8

Heads = Float[Tensor, "L H D"]
Keys = Float[Tensor, "L K D"]
Starts = Int[Tensor, " E"]


@custom_op("isentropic::packed_attention", mutates_args=())
def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, starts: Tensor, longest: int, scale: float
) -> tuple[Tensor, Tensor]:
    """What each token reads, and the log-sum-exp that the backward pass of flash attention needs.

    Row i lies at starts[i] to starts[i + 1], which are int32 on the device. Keys and values may have fewer heads.
    """
    if not flash(query, key, value):
        return one_by_one(query, key, value, starts, scale), query.new_empty(0, dtype=torch.float32)
    outcome = torch.ops.aten._flash_attention_forward(
        query, key, value, starts, starts, longest, longest, 0.0, True, False, scale=scale
    )
    return outcome[0].contiguous(), outcome[1]


@packed_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, starts: Tensor, longest: int, scale: float) -> tuple[Tensor, Tensor]:
    tokens, heads, _ = query.shape
    out = query.new_empty(tokens, heads, value.shape[-1])
    return out, query.new_empty((heads, tokens) if flash(query, key, value) else (0,), dtype=torch.float32)


@custom_op("isentropic::packed_attention_backward", mutates_args=())
def packed_attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    starts: Tensor,
    longest: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    if not flash(query, key, value):
        return slopes_one_by_one(gradient, query, key, value, starts, scale)
    without_dropout = torch.zeros(2, dtype=torch.uint64, device=query.device), torch.empty(0, device=query.device)
    slopes = torch.ops.aten._flash_attention_backward(
        gradient.contiguous(), query, key, value, out, lse, starts, starts, longest, longest, 0.0, True,
        *without_dropout, scale=scale,
    )  # fmt: skip
    return slopes[0].contiguous(), slopes[1].contiguous(), slopes[2].contiguous()


@packed_attention_backward.register_fake
def _(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    starts: Tensor,
    longest: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, starts, ctx.longest, ctx.scale = inputs
    ctx.save_for_backward(query, key, value, *output, starts)


def _backward(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    slopes = packed_attention_backward(gradient, *ctx.saved_tensors, ctx.longest, ctx.scale)
    return *slopes, None, None, None


packed_attention.register_autograd(_backward, setup_context=_keep)


def flash(query: Heads, key: Keys, value: Keys) -> bool:
    """Whether torch's flash attention takes it, which knows rows end to end and 16 bits only."""
    size = query.shape[-1]
    fits = size % 8 == 0 and size <= WIDEST and key.shape[-1] == value.shape[-1] == size
    return query.is_cuda and query.dtype in (torch.bfloat16, torch.float16) and fits


def one_by_one(query: Heads, key: Keys, value: Keys, starts: Starts, scale: float) -> Heads:
    """A call for each row: for CPUs, fp32 and odd head dimensions."""
    grouped = query.shape[1] != key.shape[1]
    parts = list[Tensor]()
    for row in rows(starts):
        q, k, v = (x[row].transpose(0, 1)[None] for x in (query, key, value))
        out = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
        parts.append(out[0].transpose(0, 1))
    return torch.cat(parts)


def slopes_one_by_one(
    gradient: Heads, query: Heads, key: Keys, value: Keys, starts: Starts, scale: float
) -> tuple[Heads, Keys, Keys]:
    """By the formula, as an operator's own backward pass has no autograd to ask."""
    shares = query.shape[1] // key.shape[1]  # query heads of one key head
    slopes = query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)
    for row in rows(starts):
        g, q = (x[row].float().unflatten(1, (-1, shares)) for x in (gradient, query))
        k, v = key[row].float(), value[row].float()
        scores = torch.einsum("lhsd,mhd->hslm", q, k) * scale
        p = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), -torch.inf).softmax(-1)
        slope = torch.einsum("lhsd,mhd->hslm", g, v)
        slope = scale * p * (slope - (slope * p).sum(-1, keepdim=True))
        slopes[0][row] = torch.einsum("hslm,mhd->lhsd", slope, k).flatten(1, 2).to(query.dtype)
        slopes[1][row] = torch.einsum("hslm,lhsd->mhd", slope, q).to(key.dtype)
        slopes[2][row] = torch.einsum("hslm,lhsd->mhd", p, g).to(value.dtype)
    return slopes


def rows(starts: Starts) -> list[slice]:
    edges = starts.tolist()
    return [slice(begin, end) for begin, end in pairwise(edges)]


def attend(
    module: nn.Module,
    query: Float[Tensor, "1 H L D"],
    key: Float[Tensor, "1 K L D"],
    value: Float[Tensor, "1 K L D"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    starts: Starts | None = None,
    longest: int = 0,
    **others: Any,
) -> tuple[Float[Tensor, "1 L H D"], None]:
    """As transformers calls it; without `starts` it is the usual attention over a rectangle."""
    if starts is None:
        return cast(Any, sdpa_attention_forward)(module, query, key, value, attention_mask, scaling=scaling, **others)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    heads = (x[0].transpose(0, 1) for x in (query, key, value))
    out, _ = packed_attention(*heads, starts, longest, scale)
    return out[None], None


AttentionInterface.register(NAME, attend)


def unpackable(config: PretrainedConfig, model: Any) -> str | None:
    """What keeps a model of this class from reading rows end to end, in words."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        return f"its layers are of the kinds {', '.join(sorted(kinds))}"
    if not getattr(model, "_supports_attention_backend", False):
        return "transformers gives it no choice of attention"
    return None
