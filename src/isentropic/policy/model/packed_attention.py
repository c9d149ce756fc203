"""Causal attention over packed (varlen) sequences: a token sees its own row only, and the row's shared prompt; where a
layer has a window, the last tokens of them.

Prompts may stand once, all of them before the answers. On a GPU two calls of flash attention, within rows and from
answers to prompts, make one softmax: their outputs are weighted by their log-sum-exps, and each backward pass takes the
merged output and log-sum-exp. arXiv:2402.05099. Every answer gets its own copy of its prompt's keys, as the backward
pass divides its work by keys: 128 of them, read by all answers at once, kept a tenth of the GPU busy.
"""

from itertools import pairwise
from typing import Any, Optional, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.library import custom_op
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PretrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "isentropic"  # as attn_implementation of a transformers model
PACKABLE = {"full_attention", "sliding_attention"}  # kinds of layers; others keep a state from token to token
MAX_HEAD_DIM = 256  # of torch's flash attention, which takes multiples of 8

Queries = Float[Tensor, "L H D"]
Keys = Float[Tensor, "M K D"]
Values = Float[Tensor, "M K V"]  # of another size than keys where these are latent
Outputs = Float[Tensor, "L H V"]
CuSeqlens = Int[Tensor, " E"]  # int32, on the device
Lse = Float[Tensor, "H L"]
RowReads = tuple[slice, list[slice]]  # a row's queries, and all keys that they read: their own at the end


@custom_op("isentropic::packed_attention", mutates_args=())
def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    scale: float,
    prompt_index: Optional[Tensor] = None,  # noqa: UP045, as the schema of an operator knows no other spelling
    cu_prompt_lens: Optional[Tensor] = None,  # noqa: UP045
    prompt_tokens: int = 0,
    max_prompt_len: int = 0,
    window: int = 0,
) -> tuple[Tensor, Tensor]:
    """Output, and the log-sum-exp that the backward pass of flash attention needs.

    Keys and values may have fewer heads. A window counts the token itself; 0 is none. With `prompt_index` the first
    `prompt_tokens` tokens are prompts, which are the first rows; the others are answers, and answer i also reads the
    tokens prompt_index[cu_prompt_lens[i] : cu_prompt_lens[i + 1]], which are contiguous.
    """
    if not uses_flash(query, key, value):
        rows = row_reads(cu_seqlens, prompt_index, cu_prompt_lens)
        return attention_by_row(query, key, value, rows, scale, window), query.new_empty(0, dtype=torch.float32)
    out, lse = flash_attention(query, key, value, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, True, scale, window)
    if prompt_index is not None and cu_prompt_lens is not None and len(prompt_index):
        assert not window, "a window reaches into a prompt from each answer token by another length"
        heads = query[prompt_tokens:], key[prompt_index], value[prompt_index]
        answers = cu_seqlens[-len(cu_prompt_lens) :] - prompt_tokens
        more, more_lse = flash_attention(*heads, answers, cu_prompt_lens, max_seqlen, max_prompt_len, False, scale)
        both = torch.logaddexp(lse[:, prompt_tokens:], more_lse)
        share = (lse[:, prompt_tokens:] - both).exp().T[..., None]
        out[prompt_tokens:] = torch.lerp(more.float(), out[prompt_tokens:].float(), share).to(out.dtype)
        lse[:, prompt_tokens:] = both
    return out, lse


@packed_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    tokens, heads, _ = query.shape
    out = query.new_empty(tokens, heads, value.shape[-1])
    return out, query.new_empty((heads, tokens) if uses_flash(query, key, value) else (0,), dtype=torch.float32)


@custom_op("isentropic::packed_attention_backward", mutates_args=())
def packed_attention_backward(
    grad_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    cu_seqlens: Tensor,
    prompt_index: Optional[Tensor],  # noqa: UP045
    cu_prompt_lens: Optional[Tensor],  # noqa: UP045
    max_seqlen: int,
    scale: float,
    prompt_tokens: int,
    max_prompt_len: int,
    window: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value [T, heads, D]; the other arguments are packed_attention's."""
    if not uses_flash(query, key, value):
        rows = row_reads(cu_seqlens, prompt_index, cu_prompt_lens)
        return attention_backward_by_row(grad_output, query, key, value, rows, scale, window)
    lengths = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
    grads = flash_attention_backward(grad_output, query, key, value, out, lse, *lengths, True, scale, window)
    if prompt_index is not None and cu_prompt_lens is not None and len(prompt_index):
        heads = grad_output[prompt_tokens:], query[prompt_tokens:], key[prompt_index], value[prompt_index]
        known = out[prompt_tokens:], lse[:, prompt_tokens:].contiguous()
        lengths = cu_seqlens[-len(cu_prompt_lens) :] - prompt_tokens, cu_prompt_lens, max_seqlen, max_prompt_len
        more = flash_attention_backward(*heads, *known, *lengths, False, scale)
        grads[0][prompt_tokens:] += more[0]
        for x, part in zip(grads[1:], more[1:], strict=True):  # rounded once, after the sum over all answers
            x[:prompt_tokens] = x[:prompt_tokens].float().index_add_(0, prompt_index, part.float())
    return grads


@packed_attention_backward.register_fake
def _(grad_output: Tensor, query: Tensor, key: Tensor, value: Tensor, *settings: Any) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, cu_seqlens, max_seqlen, scale, prompt_index, cu_prompt_lens, *sizes = inputs
    ctx.save_for_backward(query, key, value, *output, cu_seqlens, prompt_index, cu_prompt_lens)
    ctx.settings = max_seqlen, scale, *sizes


def _backward(ctx: Any, grad_output: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    return *packed_attention_backward(grad_output, *ctx.saved_tensors, *ctx.settings), *[None] * 8


packed_attention.register_autograd(_backward, setup_context=_setup_context)


def attend(
    module: nn.Module,
    query: Float[Tensor, "B H L D"],
    key: Float[Tensor, "B K L D"],
    value: Float[Tensor, "B K L V"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    cu_seqlens: CuSeqlens | None = None,
    max_seqlen: int = 0,
    prompt_index: Int[Tensor, " C"] | None = None,
    cu_prompt_lens: Int[Tensor, " A1"] | None = None,
    prompt_tokens: int = 0,
    max_prompt_len: int = 0,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Float[Tensor, "B L H V"], None]:
    """As transformers calls it; without `cu_seqlens` the usual attention over a padded rectangle, mask [B, 1, L, K]."""
    if cu_seqlens is None:
        if attention_mask is None and sliding_window and query.shape[2] > sliding_window:
            attention_mask = causal_mask(query.shape[2], key.shape[2], query.device, sliding_window)[None, None]
        return cast(Any, sdpa_attention_forward)(module, query, key, value, attention_mask, scaling=scaling, **others)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    heads = (x[0].transpose(0, 1) for x in (query, key, value))
    shared = prompt_index, cu_prompt_lens, prompt_tokens, max_prompt_len
    return packed_attention(*heads, cu_seqlens, max_seqlen, scale, *shared, sliding_window or 0)[0][None], None


AttentionInterface.register(NAME, attend)


def unpackable(config: PretrainedConfig, model: Any) -> str | None:
    """Why a model of this class cannot read packed sequences, in words; None where that is to be tried."""
    text = config.get_text_config(decoder=True)
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    if not kinds <= PACKABLE:
        return f"its layers are of the kinds {', '.join(sorted(kinds))}"
    if not getattr(model, "_supports_attention_backend", False):
        return "transformers gives it no choice of attention"
    if caps_scores(text):
        return "its attention caps its scores"
    return None


def caps_scores(config: PretrainedConfig) -> bool:
    """Whether only transformers' eager attention is right: its others leave the cap out without a word."""
    return getattr(config.get_text_config(decoder=True), "attn_logit_softcapping", None) is not None


def uses_flash(query: Queries, key: Keys, value: Values) -> bool:
    """Whether torch's flash attention takes them: it is the one that knows varlen, in 16 bits only."""
    size = query.shape[-1]
    fits = size % 8 == 0 and size <= MAX_HEAD_DIM and key.shape[-1] == value.shape[-1] == size
    return query.is_cuda and query.dtype in (torch.bfloat16, torch.float16) and fits


def flash_attention(
    query: Queries, key: Keys, value: Keys, cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens,
    max_seqlen_q: int, max_seqlen_k: int, causal: bool, scale: float, window: int = 0,
) -> tuple[Queries, Lse]:  # fmt: skip
    """torch's own kernel over packed rows: output and log-sum-exp. A window of 0 sees all tokens before."""
    settings = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, 0.0, causal, False)
    outcome = torch.ops.aten._flash_attention_forward(query, key, value, *settings, scale=scale, **reach(window))
    return outcome[0].contiguous(), outcome[1]


def flash_attention_backward(
    grad_output: Queries, query: Queries, key: Keys, value: Keys, out: Queries, lse: Lse, cu_seqlens_q: CuSeqlens,
    cu_seqlens_k: CuSeqlens, max_seqlen_q: int, max_seqlen_k: int, causal: bool, scale: float,
    window: int = 0,
) -> tuple[Queries, Keys, Keys]:  # fmt: skip
    """Where queries read other keys too, `out` and `lse` are of all keys; gradients are those through these."""
    no_dropout = torch.zeros(2, dtype=torch.uint64, device=query.device), torch.empty(0, device=query.device)
    settings = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, 0.0, causal, *no_dropout)
    heads = (grad_output.contiguous(), query, key, value, out, lse)
    grads = torch.ops.aten._flash_attention_backward(*heads, *settings, scale=scale, **reach(window))
    return grads[0].contiguous(), grads[1].contiguous(), grads[2].contiguous()


def reach(window: int) -> dict[str, int]:
    """As flash attention has it: tokens before this one, and after it."""
    return {"window_size_left": window - 1, "window_size_right": 0} if window else {}


def attention_by_row(
    query: Queries, key: Keys, value: Values, rows: list[RowReads], scale: float, window: int = 0
) -> Outputs:
    """A call of sdpa for each row: for CPUs, fp32 and odd head dimensions."""
    grouped = query.shape[1] != key.shape[1]
    out = query.new_empty(*query.shape[:2], value.shape[-1])
    for own, read in rows:
        q, k, v = (x.transpose(0, 1)[None] for x in (query[own], gather_slices(key, read), gather_slices(value, read)))
        plain = q.shape[2] == k.shape[2] and not 0 < window < k.shape[2]
        mask = None if plain else causal_mask(q.shape[2], k.shape[2], q.device, window)
        part = scaled_dot_product_attention(q, k, v, mask, is_causal=plain, scale=scale, enable_gqa=grouped)
        out[own] = part[0].transpose(0, 1)
    return out


def attention_backward_by_row(
    grad_output: Outputs, query: Queries, key: Keys, value: Values, rows: list[RowReads], scale: float, window: int = 0
) -> tuple[Queries, Keys, Values]:
    """By the formula, as an operator's own backward pass has no autograd to ask."""
    shares = query.shape[1] // key.shape[1]  # query heads of one key head
    total = [x.new_zeros(x.shape, dtype=torch.float32) for x in (query, key, value)]
    for own, read in rows:
        g, q = (x[own].float().unflatten(1, (-1, shares)) for x in (grad_output, query))
        k, v = gather_slices(key, read).float(), gather_slices(value, read).float()
        scores = torch.einsum("lhsd,mhd->hslm", q, k) * scale
        seen = causal_mask(scores.shape[2], scores.shape[3], scores.device, window)
        p = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        slope = torch.einsum("lhsd,mhd->hslm", g, v)
        slope = scale * p * (slope - (slope * p).sum(-1, keepdim=True))
        total[0][own] = torch.einsum("hslm,mhd->lhsd", slope, k).flatten(1, 2)
        lengths = [place.stop - place.start for place in read]
        for x, part in (1, torch.einsum("hslm,lhsd->mhd", slope, q)), (2, torch.einsum("hslm,lhsd->mhd", p, g)):
            for place, piece in zip(read, part.split(lengths), strict=True):
                total[x][place] += piece
    return total[0].to(query.dtype), total[1].to(key.dtype), total[2].to(value.dtype)


def gather_slices(x: Tensor, places: list[slice]) -> Tensor:
    """Slices of the first axis, one behind the other; x is [T, ...], T tokens of all rows."""
    return torch.cat([x[place] for place in places])


def causal_mask(queries: int, keys: int, device: torch.device, window: int = 0) -> Bool[Tensor, "L M"]:
    """Whether a query reads a key: the last of both is the same token."""
    seen = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
    return seen.triu(keys - queries - window + 1) if window else seen


def row_reads(
    cu_seqlens: CuSeqlens, prompt_index: Int[Tensor, " C"] | None, cu_prompt_lens: Int[Tensor, " A1"] | None
) -> list[RowReads]:
    """Each row reads itself, and answers, which are the last rows, their prompt before that."""
    rows = [slice(*edges) for edges in pairwise(cu_seqlens.tolist())]
    if prompt_index is None or cu_prompt_lens is None:
        return [(own, [own]) for own in rows]
    first = [int(place) for place in prompt_index[cu_prompt_lens[:-1].long()]]
    lengths = [end - begin for begin, end in pairwise(cu_prompt_lens.tolist())]
    prompts = [slice(at, at + length) for at, length in zip(first, lengths, strict=True)]
    alone = len(rows) - len(prompts)
    return [(own, [own]) for own in rows[:alone]] + [
        (own, [prompt, own]) for own, prompt in zip(rows[alone:], prompts, strict=True)
    ]
