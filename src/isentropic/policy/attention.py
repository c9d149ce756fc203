"""Causal attention of rows that lie end to end, without padding: no token sees another row."""

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
Starts = Int[Tensor, " rows+1"]


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
    return outcome[0], outcome[1]


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
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_() for x in (query, key, value)]
            slopes = torch.autograd.grad(one_by_one(*inputs, starts, scale), inputs, gradient)
        return slopes[0].contiguous(), slopes[1].contiguous(), slopes[2].contiguous()
    without_dropout = torch.zeros(2, dtype=torch.uint64, device=query.device), torch.empty(0, device=query.device)
    return torch.ops.aten._flash_attention_backward(
        gradient.contiguous(), query, key, value, out, lse, starts, starts, longest, longest, 0.0, True,
        *without_dropout, scale=scale,
    )  # fmt: skip


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


def flash(query: Heads, key: Heads, value: Heads) -> bool:
    """Whether torch's flash attention takes it, which knows rows end to end and 16 bits only."""
    size = query.shape[-1]
    fits = size % 8 == 0 and size <= WIDEST and key.shape[-1] == value.shape[-1] == size
    return query.is_cuda and query.dtype in (torch.bfloat16, torch.float16) and fits


def one_by_one(query: Heads, key: Heads, value: Heads, starts: Starts, scale: float) -> Heads:
    """A call for each row: for CPUs, fp32 and odd head dimensions."""
    edges = starts.tolist()
    parts = [
        scaled_dot_product_attention(
            *(x[begin:end].transpose(0, 1)[None] for x in (query, key, value)),
            is_causal=True, scale=scale, enable_gqa=query.shape[1] != key.shape[1],
        )[0].transpose(0, 1)
        for begin, end in zip(edges, edges[1:], strict=False)
    ]  # fmt: skip
    return torch.cat(parts)


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
