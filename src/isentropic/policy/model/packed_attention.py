"""Causal attention of rows that lie end to end, without padding: no token sees another row, unless it is its prompt.

Prompts may be there once: all come first, then their answers. On a GPU two calls of flash attention, within rows and
from answers to prompts, make one softmax: their outputs are weighed by their sums, and each backward pass takes the
output and the log-sum-exp of both. arXiv:2402.05099. Every answer is given its own copy of its prompt's keys, as the
backward pass divides its work by keys: 128 of them, read by all answers at once, kept a tenth of the card busy.
"""

from typing import Any, Optional, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.library import custom_op
from transformers import AttentionInterface, PretrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from isentropic.policy.model.attention_calls import Starts, flash, one_by_one, read, readings, slopes, slopes_one_by_one

NAME = "isentropic"  # as attn_implementation of a transformers model


@custom_op("isentropic::packed_attention", mutates_args=())
def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: Tensor,
    longest: int,
    scale: float,
    copies: Optional[Tensor] = None,  # noqa: UP045, as operators know no other word for it
    copy_starts: Optional[Tensor] = None,  # noqa: UP045
    prompts: int = 0,
    longest_prompt: int = 0,
) -> tuple[Tensor, Tensor]:
    """What each token reads, and the log-sum-exp that the backward pass of flash attention needs.

    Row i lies at starts[i] to starts[i + 1], which are int32 on the device. Keys and values may have fewer heads.
    With `copies` the first `prompts` tokens are of prompts, which are the first rows; the others are answers, and
    answer i reads also the tokens copies[copy_starts[i]] to copies[copy_starts[i + 1]], which lie side by side.
    """
    if not flash(query, key, value):
        rows = readings(starts, copies, copy_starts)
        return one_by_one(query, key, value, rows, scale), query.new_empty(0, dtype=torch.float32)
    out, lse = read(query, key, value, starts, starts, longest, longest, True, scale)
    if copies is not None and copy_starts is not None and len(copies):
        heads, own = (query[prompts:], key[copies], value[copies]), starts[-len(copy_starts) :] - prompts
        asked, asked_lse = read(*heads, own, copy_starts, longest, longest_prompt, False, scale)
        both = torch.logaddexp(lse[:, prompts:], asked_lse)
        share = (lse[:, prompts:] - both).exp().T[..., None]
        out[prompts:] = torch.lerp(asked.float(), out[prompts:].float(), share).to(out.dtype)
        lse[:, prompts:] = both
    return out, lse


@packed_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
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
    copies: Optional[Tensor],  # noqa: UP045
    copy_starts: Optional[Tensor],  # noqa: UP045
    longest: int,
    scale: float,
    prompts: int,
    longest_prompt: int,
) -> tuple[Tensor, Tensor, Tensor]:
    if not flash(query, key, value):
        return slopes_one_by_one(gradient, query, key, value, readings(starts, copies, copy_starts), scale)
    found = slopes(gradient, query, key, value, out, lse, starts, starts, longest, longest, True, scale)
    if copies is not None and copy_starts is not None and len(copies):
        heads = gradient[prompts:], query[prompts:], key[copies], value[copies], out[prompts:]
        lse, own = lse[:, prompts:].contiguous(), starts[-len(copy_starts) :] - prompts
        more = slopes(*heads, lse, own, copy_starts, longest, longest_prompt, False, scale)
        found[0][prompts:] += more[0]
        for x, part in zip(found[1:], more[1:], strict=True):
            x[:prompts] = x[:prompts].float().index_add_(0, copies, part.float())  # rounded once, of all answers
    return found


@packed_attention_backward.register_fake
def _(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *settings: Any) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, starts, longest, scale, copies, copy_starts, *sizes = inputs
    ctx.save_for_backward(query, key, value, *output, starts, copies, copy_starts)
    ctx.settings = longest, scale, *sizes


def _backward(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    return *packed_attention_backward(gradient, *ctx.saved_tensors, *ctx.settings), *[None] * 7


packed_attention.register_autograd(_backward, setup_context=_keep)


def attend(
    module: nn.Module,
    query: Float[Tensor, "1 H L D"],
    key: Float[Tensor, "1 K L D"],
    value: Float[Tensor, "1 K L D"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    starts: Starts | None = None,
    longest: int = 0,
    copies: Int[Tensor, " C"] | None = None,
    copy_starts: Int[Tensor, " A1"] | None = None,
    prompts: int = 0,
    longest_prompt: int = 0,
    **others: Any,
) -> tuple[Float[Tensor, "1 L H D"], None]:
    """As transformers calls it; without `starts` it is the usual attention over a rectangle."""
    if starts is None:
        return cast(Any, sdpa_attention_forward)(module, query, key, value, attention_mask, scaling=scaling, **others)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    heads = (x[0].transpose(0, 1) for x in (query, key, value))
    shared = copies, copy_starts, prompts, longest_prompt
    return packed_attention(*heads, starts, longest, scale, *shared)[0][None], None


AttentionInterface.register(NAME, attend)


def unpackable(config: PretrainedConfig, model: Any) -> str | None:
    """What keeps a model of this class from reading rows end to end, in words."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        return f"its layers are of the kinds {', '.join(sorted(kinds))}"
    if not getattr(model, "_supports_attention_backend", False):
        return "transformers gives it no choice of attention"
    return None
