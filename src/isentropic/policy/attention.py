"""Causal attention of rows that lie end to end, without padding: no token sees another row, unless it is its prompt.

Prompts may be there once: all come first, then the answers to the first, to the second, and so on. On a GPU two calls
of flash attention, within rows and from answers to prompts, make one softmax: their outputs are weighed by their sums,
and each backward pass takes the output and the log-sum-exp of both. arXiv:2402.05099
"""

from typing import Any, Optional, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.library import custom_op
from transformers import AttentionInterface, PretrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from isentropic.policy.attention_calls import Starts, flash, one_by_one, read, readings, slopes, slopes_one_by_one

NAME = "isentropic"  # as attn_implementation of a transformers model


@custom_op("isentropic::packed_attention", mutates_args=())
def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: Tensor,
    longest: int,
    scale: float,
    answers: Optional[Tensor] = None,  # noqa: UP045, as operators know no other word for it
    prompts: int = 0,
    longest_prompt: int = 0,
    longest_answers: int = 0,
) -> tuple[Tensor, Tensor]:
    """What each token reads, and the log-sum-exp that the backward pass of flash attention needs.

    Row i lies at starts[i] to starts[i + 1], which are int32 on the device. Keys and values may have fewer heads.
    With `answers` the first `prompts` tokens are of prompts, which are the first rows, and others read theirs too:
    answers to prompt i lie at answers[i] to answers[i + 1] after the prompts, `longest_answers` tokens at most.
    """
    if not flash(query, key, value):
        rows = readings(starts, answers, prompts)
        return one_by_one(query, key, value, rows, scale), query.new_empty(0, dtype=torch.float32)
    out, lse = read(query, key, value, starts, starts, longest, longest, True, scale)
    if answers is not None and longest_answers:
        heads, seen = (query[prompts:], key[:prompts], value[:prompts]), starts[: len(answers)]
        asked, asked_lse = read(*heads, answers, seen, longest_answers, longest_prompt, False, scale)
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
    answers: Optional[Tensor],  # noqa: UP045
    longest: int,
    scale: float,
    prompts: int,
    longest_prompt: int,
    longest_answers: int,
) -> tuple[Tensor, Tensor, Tensor]:
    if not flash(query, key, value):
        return slopes_one_by_one(gradient, query, key, value, readings(starts, answers, prompts), scale)
    found = slopes(gradient, query, key, value, out, lse, starts, starts, longest, longest, True, scale)
    if answers is not None and longest_answers:
        heads = gradient[prompts:], query[prompts:], key[:prompts], value[:prompts], out[prompts:]
        lse, seen = lse[:, prompts:].contiguous(), starts[: len(answers)]
        more = slopes(*heads, lse, answers, seen, longest_answers, longest_prompt, False, scale)
        found[0][prompts:] += more[0]
        found[1][:prompts] += more[1]
        found[2][:prompts] += more[2]
    return found


@packed_attention_backward.register_fake
def _(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *settings: Any) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, starts, longest, scale, answers, *sizes = inputs
    ctx.save_for_backward(query, key, value, *output, starts, answers)
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
    answers: Int[Tensor, " P1"] | None = None,
    prompts: int = 0,
    longest_prompt: int = 0,
    longest_answers: int = 0,
    **others: Any,
) -> tuple[Float[Tensor, "1 L H D"], None]:
    """As transformers calls it; without `starts` it is the usual attention over a rectangle."""
    if starts is None:
        return cast(Any, sdpa_attention_forward)(module, query, key, value, attention_mask, scaling=scaling, **others)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    heads = (x[0].transpose(0, 1) for x in (query, key, value))
    shared = answers, prompts, longest_prompt, longest_answers
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
