"""cuDNN's attention for packed rows of one length, which torch knows for rectangles; on Hopper it is the faster one.

For rows of several lengths torch has it too, as `_cudnn_attention_forward` with cumulative lengths, but makes its plan
anew in every call (aten/src/ATen/native/cudnn/MHA.cpp), which costs the host tens of milliseconds each time.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

Heads = Float[Tensor, "L H D"]
Keys = Float[Tensor, "L K D"]
Lse = Float[Tensor, "H L"]


def are_equal(query: Heads, cu_seqlens: Int[Tensor, " E"], longest: int) -> bool:
    """Whether all rows are as long as the longest, by their shapes alone."""
    return (len(cu_seqlens) - 1) * longest == len(query)


def cudnn_attention(query: Heads, key: Keys, value: Keys, length: int, scale: float) -> tuple[Heads, Lse]:
    """Output and log-sum-exp, as flash attention gives them, of rows of `length` tokens."""
    rows = (rectangle(x, length) for x in (query, key, value))
    outcome = torch.ops.aten._scaled_dot_product_cudnn_attention(*rows, None, True, 0.0, True, scale=scale)
    return outcome[0].transpose(1, 2).reshape(query.shape), outcome[1].flatten(2).transpose(0, 1).flatten(1)


def cudnn_attention_backward(
    grad_output: Heads, query: Heads, key: Keys, value: Keys, out: Heads, lse: Lse, length: int, scale: float
) -> tuple[Heads, Keys, Keys]:
    """Gradients of query, key and value."""
    rows = (rectangle(x, length) for x in (grad_output, query, key, value, out))
    stats = lse.unflatten(1, (-1, length)).transpose(0, 1).contiguous()[..., None]
    dropout, lengths = [torch.zeros((), dtype=torch.int64, device=query.device)] * 2, (None, None, length, length)
    settings = (*dropout, None, *lengths, 0.0, True)
    grads = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(*rows, stats, *settings, scale=scale)
    q, k, v = (x.transpose(1, 2).flatten(0, 1).contiguous() for x in grads)
    return q, k, v


def rectangle(x: Heads, length: int) -> Float[Tensor, "B H S D"]:
    """A view of rows as torch's attention takes them; of strided ones a copy."""
    return x.contiguous().unflatten(0, (-1, length)).transpose(1, 2)
