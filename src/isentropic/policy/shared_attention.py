"""Causal attention of answers to prompts that are there once: each token reads its answer so far, and its prompt.

All prompts come first, end to end, then the answers to the first, to the second, and so on. On a GPU two calls of flash
attention, within rows and from answers to prompts, make one softmax: their outputs are weighed by their sums, and each
backward pass takes the output and the log-sum-exp of both. arXiv:2402.05099
"""

from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.library import custom_op

from isentropic.policy.attention_calls import Reading, Starts, flash, one_by_one, read, slopes, slopes_one_by_one


@custom_op("isentropic::shared_attention", mutates_args=())
def shared_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: Tensor,
    longest: int,
    scale: float,
    answers: Tensor,
    prompts: int,
    longest_prompt: int,
    longest_answers: int,
) -> tuple[Tensor, Tensor]:
    """As `packed_attention`, of rows that are prompts and answers by themselves.

    The first `prompts` tokens are of prompts, which are the first rows. Answers to prompt i lie at answers[i] to
    answers[i + 1] after them; all that answer one prompt have `longest_answers` tokens at most.
    """
    if not flash(query, key, value):
        return one_by_one(query, key, value, readings(starts, answers, prompts), scale), query.new_empty(
            0, dtype=torch.float32
        )
    out, lse = read(query, key, value, starts, starts, longest, longest, True, scale)
    if longest_answers:
        seen = starts[: len(answers)]
        asked, asked_lse = read(
            query[prompts:],
            key[:prompts],
            value[:prompts],
            answers,
            seen,
            longest_answers,
            longest_prompt,
            False,
            scale,
        )
        own = lse[:, prompts:]
        both = torch.logaddexp(own, asked_lse)
        share = (own - both).exp().T[..., None]
        out[prompts:] = torch.lerp(asked.float(), out[prompts:].float(), share).to(out.dtype)
        lse[:, prompts:] = both
    return out, lse


@shared_attention.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: Tensor,
    longest: int,
    scale: float,
    answers: Tensor,
    prompts: int,
    longest_prompt: int,
    longest_answers: int,
) -> tuple[Tensor, Tensor]:
    tokens, heads, _ = query.shape
    out = query.new_empty(tokens, heads, value.shape[-1])
    return out, query.new_empty((heads, tokens) if flash(query, key, value) else (0,), dtype=torch.float32)


@custom_op("isentropic::shared_attention_backward", mutates_args=())
def shared_attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    starts: Tensor,
    answers: Tensor,
    longest: int,
    scale: float,
    prompts: int,
    longest_prompt: int,
    longest_answers: int,
) -> tuple[Tensor, Tensor, Tensor]:
    if not flash(query, key, value):
        return slopes_one_by_one(gradient, query, key, value, readings(starts, answers, prompts), scale)
    found = slopes(gradient, query, key, value, out, lse, starts, starts, longest, longest, True, scale)
    if longest_answers:
        heads = gradient[prompts:], query[prompts:], key[:prompts], value[:prompts], out[prompts:]
        lse, seen = lse[:, prompts:].contiguous(), starts[: len(answers)]
        more = slopes(*heads, lse, answers, seen, longest_answers, longest_prompt, False, scale)
        found[0][prompts:] += more[0]
        found[1][:prompts] += more[1]
        found[2][:prompts] += more[2]
    return found


@shared_attention_backward.register_fake
def _(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    starts: Tensor,
    answers: Tensor,
    longest: int,
    scale: float,
    prompts: int,
    longest_prompt: int,
    longest_answers: int,
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, starts, longest, scale, answers, *sizes = inputs
    ctx.save_for_backward(query, key, value, *output, starts, answers)
    ctx.settings = longest, scale, *sizes


def _backward(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    found = shared_attention_backward(gradient, *ctx.saved_tensors, *ctx.settings)
    return *found, *[None] * 7


shared_attention.register_autograd(_backward, setup_context=_keep)


def readings(starts: Starts, answers: Int[Tensor, " P1"], prompts: int) -> list[Reading]:
    """Each prompt reads itself, each answer its prompt and itself."""
    edges, ends = starts.tolist(), answers.tolist()[1:]
    found = list[Reading]()
    for begin, end in pairwise(edges):
        own = slice(begin, end)
        asked = sum(ends_before <= begin - prompts for ends_before in ends)
        found.append((own, [own] if end <= prompts else [slice(edges[asked], edges[asked + 1]), own]))
    return found
