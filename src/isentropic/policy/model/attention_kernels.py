"""Kernels of attention over packed rows on a GPU: torch's flash 2, and cuDNN's, which on Hopper is the faster one.

torch has cuDNN's for rectangles, that is for rows of one length. For rows of several it has it too, as
`_cudnn_attention_forward` with cumulative lengths, but makes its plan anew in every call
(aten/src/ATen/native/cudnn/MHA.cpp), which costs the host tens of milliseconds each time.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

Queries = Float[Tensor, "L H D"]
Keys = Float[Tensor, "M K D"]
CuSeqlens = Int[Tensor, " E"]  # int32, on the device
CuPromptLens = Int[Tensor, " A1"]  # of each answer's prompt
Lse = Float[Tensor, "H L"]


def within_rows(
    query: Queries, key: Keys, value: Keys, cu_seqlens: CuSeqlens, max_seqlen: int, scale: float, window: int,
    cudnn: bool, prompt_tokens: int, cu_prompt_lens: CuPromptLens | None, max_prompt_len: int,
) -> tuple[Queries, Lse]:  # fmt: skip
    """Output and log-sum-exp of causal attention, each row by itself; by cuDNN where all answers have one length."""
    n, count = prompt_tokens, equal_answers(query, cu_seqlens, max_seqlen, prompt_tokens, cu_prompt_lens)
    if not cudnn or window or not count:
        lengths = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
        return flash_attention(query, key, value, *lengths, True, scale, window)
    out, lse = cudnn_attention(query[n:], key[n:], value[n:], max_seqlen, scale)
    if n:
        edges = cu_seqlens[: len(cu_seqlens) - count]
        lengths = edges, edges, max_prompt_len, max_prompt_len
        first = flash_attention(query[:n], key[:n], value[:n], *lengths, True, scale)
        out, lse = torch.cat([first[0], out]), torch.cat([first[1], lse], 1)
    return out, lse


def within_rows_backward(
    grad_output: Queries, query: Queries, key: Keys, value: Keys, out: Queries, lse: Lse, cu_seqlens: CuSeqlens,
    max_seqlen: int, scale: float, window: int, cudnn: bool, prompt_tokens: int, cu_prompt_lens: CuPromptLens | None,
    max_prompt_len: int,
) -> tuple[Queries, Keys, Keys]:  # fmt: skip
    """Gradients through the keys of a token's own row; `out` and `lse` may be of more keys."""
    n, count = prompt_tokens, equal_answers(query, cu_seqlens, max_seqlen, prompt_tokens, cu_prompt_lens)
    if not cudnn or window or not count:
        lengths = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
        return flash_attention_backward(grad_output, query, key, value, out, lse, *lengths, True, scale, window)
    answers = grad_output[n:], query[n:], key[n:], value[n:], out[n:], lse[:, n:]
    grads = cudnn_attention_backward(*answers, max_seqlen, scale)
    if n:
        edges = cu_seqlens[: len(cu_seqlens) - count]
        prompts = grad_output[:n], query[:n], key[:n], value[:n], out[:n], lse[:, :n].contiguous()
        lengths = edges, edges, max_prompt_len, max_prompt_len
        first = flash_attention_backward(*prompts, *lengths, True, scale)
        q, k, v = (torch.cat(parts) for parts in zip(first, grads, strict=True))
        return q, k, v
    return grads


def equal_answers(
    query: Queries, cu_seqlens: CuSeqlens, longest: int, prompt_tokens: int, cu_prompt_lens: CuPromptLens | None
) -> int:
    """How many answers there are, where all are as long as the longest row, by shapes alone; else 0."""
    count = len(cu_seqlens if cu_prompt_lens is None else cu_prompt_lens) - 1
    return count if count * longest == len(query) - prompt_tokens else 0


def cudnn_attention(query: Queries, key: Keys, value: Keys, length: int, scale: float) -> tuple[Queries, Lse]:
    """Output and log-sum-exp, as flash attention gives them, of rows of `length` tokens."""
    rows = (rectangle(x, length) for x in (query, key, value))
    outcome = torch.ops.aten._scaled_dot_product_cudnn_attention(*rows, None, True, 0.0, True, scale=scale)
    return outcome[0].transpose(1, 2).reshape(query.shape), outcome[1].flatten(2).transpose(0, 1).flatten(1)


def cudnn_attention_backward(
    grad_output: Queries, query: Queries, key: Keys, value: Keys, out: Queries, lse: Lse, length: int, scale: float
) -> tuple[Queries, Keys, Keys]:
    """Gradients of query, key and value."""
    rows = (rectangle(x, length) for x in (grad_output, query, key, value, out))
    stats = lse.unflatten(1, (-1, length)).transpose(0, 1).contiguous()[..., None]
    dropout, lengths = [torch.zeros((), dtype=torch.int64, device=query.device)] * 2, (None, None, length, length)
    settings = (*dropout, None, *lengths, 0.0, True)
    grads = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(*rows, stats, *settings, scale=scale)
    q, k, v = (x.transpose(1, 2).flatten(0, 1).contiguous() for x in grads)
    return q, k, v


def rectangle(x: Queries, length: int) -> Float[Tensor, "B H S D"]:
    """A view of rows as torch's attention takes them; of strided ones a copy."""
    return x.contiguous().unflatten(0, (-1, length)).transpose(1, 2)


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
