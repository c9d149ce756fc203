"""The log-prob head on a GPU: logits in chunks of the vocabulary, kept as far as memory allows, else recomputed.

Three matrix products are the least: logits, gradient of the states, gradient of the weight. Logits that are not kept
cost a fourth. So the memory of the last chunk, reused by all others before, keeps its logits for the backward pass; and
so does the weight's gradient until it is written, of which the rows for chunk 1 lie where the logits of chunk 0 were:

    gradient of the weight   | its rows for chunk 0 | logits of chunk 0 | logits of chunk 1    |
    memory of a chunk        | logits of chunk 4, then of chunk 3, then, kept, of chunk 2      |
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from isentropic.batch import EntropyMode, PerTarget
from isentropic.policy.model.logits_kernels import accumulate_stats, allocate_stats, logits_grad

ALIGNED = 64  # vocabulary entries to which a chunk is rounded
ROW = 8  # entries to which a row of logits is padded: 16 bytes, which tensor cores ask for


@dataclass(frozen=True)
class LogitChunk:
    """Vocabulary entries first to last, and the memory of their logits."""

    first: int
    last: int
    logits: Float[Tensor, "N W"]
    kept: bool


def plan_logit_chunks(
    rows: int, weight: Float[Tensor, "V D"], dtype: torch.dtype, logits_chunk: int, learns: bool
) -> tuple[Float[Tensor, "V D"] | None, list[LogitChunk]]:
    """Memory for the weight's gradient where it is trained, and the chunks in the order of the backward pass.

    Beside the gradient there is memory for logits_chunk * V logits, but at least 64 of each row.
    """
    vocabulary, dim = weight.shape
    gradient, chunks, first = None, list[LogitChunk](), 0
    if learns:
        gradient = torch.empty(vocabulary, dim, dtype=weight.dtype, device=weight.device)
        own, other = dim * weight.dtype.itemsize, rows * dtype.itemsize  # bytes of a token: gradient, logits
        head = vocabulary * own**2 // (own**2 + (own + other) * other) // ALIGNED * ALIGNED
        first = head + head * other // own // ALIGNED * ALIGNED  # rows up to here end where its logits begin
        memory = gradient.view(-1)[head * dim :].view(dtype)
        edges = sorted({0, head, first})
        chunks += [LogitChunk(a, b, as_matrix(memory[rows * a :], rows, b - a), True) for a, b in pairwise(edges)]
    room = min(max(logits_chunk * vocabulary // rows // ALIGNED, 1) * ALIGNED, vocabulary - first)
    memory = torch.empty(rows * round_up(room, ROW), dtype=dtype, device=weight.device)
    chunks.append(LogitChunk(first, first + room, as_matrix(memory, rows, room), True))
    left = vocabulary - first - room
    step = round_up(-(-left // -(-left // room)), ALIGNED) if left else 1
    for start in range(first + room, vocabulary, step):
        last = min(start + step, vocabulary)
        chunks.append(LogitChunk(start, last, as_matrix(memory, rows, last - start), False))
    return gradient, chunks


def round_up(number: int, unit: int) -> int:
    """The least multiple of `unit` that is no less."""
    return -(-number // unit) * unit


def as_matrix(memory: Tensor, rows: int, width: int) -> Float[Tensor, "N W"]:
    """A view of the first rows x width numbers of `memory` [M], each row at a multiple of ROW."""
    return memory[: rows * round_up(width, ROW)].view(rows, round_up(width, ROW))[:, :width]


def fused_stats(
    states: Float[Tensor, "N D"],
    head: nn.Linear,
    targets: Int[Tensor, " N"],
    temperature: float,
    logits_chunk: int,
    wanted: EntropyMode,
) -> tuple[PerTarget, PerTarget, PerTarget]:
    """`row_stats` with products in the type of autocast, where it is on, else in the weight's.

    One backward pass only: it leaves the logits' gradient where they were.
    """
    device = states.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else head.weight.dtype
    keep = torch.is_grad_enabled()
    values: Any = FusedStats.apply(
        states, head.weight, head.bias, targets.contiguous(), temperature, logits_chunk, wanted, dtype, keep
    )
    return values


class FusedStats(torch.autograd.Function):
    """Log-prob, entropy and sensitivity of N targets, [N] each, without logits of more than a chunk."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"] | None,
        targets: Int[Tensor, " N"],
        temperature: float,
        logits_chunk: int,
        wanted: EntropyMode,
        dtype: torch.dtype,
        keep: bool,
    ) -> tuple[PerTarget, PerTarget, PerTarget]:
        ctx.dtype, ctx.temperature, ctx.wanted = states.dtype, temperature, wanted
        states = states.detach().to(dtype)
        ctx.memory = _, chunks = plan_logit_chunks(
            max(len(states), 1), weight, dtype, logits_chunk, keep and ctx.needs_input_grad[1]
        )
        running, stats = allocate_stats(targets)
        for chunk in reversed(chunks) if len(states) else ():
            compute_logits(chunk, states, weight, bias)
            ends = chunk is chunks[-1], chunk is chunks[0]
            asked = wanted != "none", wanted == "value"
            accumulate_stats(chunk.logits, chunk.first, targets, running, stats, temperature, *asked, *ends)
        logp, entropy, sensitivity, lse = stats
        ctx.save_for_backward(states, weight, bias, targets, lse, entropy)
        ctx.mark_non_differentiable(*([sensitivity] if wanted == "gradient" else [entropy, sensitivity]))
        return logp, entropy, sensitivity

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad_output: PerTarget, entropy_grad_output: PerTarget, _: PerTarget
    ) -> tuple[Tensor | None, ...]:
        states, weight, bias, targets, lse, entropy = ctx.saved_tensors
        if ctx.memory is None:
            raise RuntimeError("a second backward pass through the head: the first one has overwritten its logits")
        (weight_gradient, chunks), ctx.memory = ctx.memory, None
        learns_states, _, learns_bias = ctx.needs_input_grad[:3]
        gradient = None if len(states) else torch.zeros_like(states)  # a sum over chunks, in fp32
        bias_gradient = torch.zeros(len(weight), device=states.device) if learns_bias else None
        if weight_gradient is not None and not len(states):
            weight_gradient.zero_()
        while chunks and len(states):
            chunk = chunks.pop(0)
            tokens, d = slice(chunk.first, chunk.last), chunk.logits
            if not chunk.kept:
                compute_logits(chunk, states, weight, bias)
            logits_grad(
                d,
                chunk.first,
                targets,
                lse,
                entropy,
                grad_output.contiguous(),
                entropy_grad_output.contiguous() if ctx.wanted == "gradient" else None,
                ctx.temperature,
            )
            if weight_gradient is not None:
                matmul_into(d.T, states, weight_gradient[tokens])
            if learns_states:
                out = torch.empty(states.shape, device=states.device) if gradient is None else gradient
                gradient = matmul_into(d, weight[tokens].to(d.dtype), out, add=gradient is not None)
            if bias_gradient is not None:
                bias_gradient[tokens] = d.sum(0, dtype=torch.float32)
            del chunk, d  # frees the logits before the sums are cast
        gradient = gradient.to(ctx.dtype) if learns_states and gradient is not None else None
        bias_gradient = None if bias_gradient is None else bias_gradient.to(bias.dtype)
        return gradient, weight_gradient, bias_gradient, *[None] * 6


def compute_logits(chunk: LogitChunk, states: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Into chunk.logits [N, W]: states [N, D] by the chunk's rows of weight [V, D], and bias [V], in states' type."""
    tokens = slice(chunk.first, chunk.last)
    part = weight[tokens].to(states.dtype).T  # a cast copy of a whole head would outweigh the logits
    if bias is None:
        matmul_into(states, part, chunk.logits)
    else:
        torch.addmm(bias[tokens].to(states.dtype), states, part, out=chunk.logits)


def matmul_into(a: Tensor, b: Tensor, out: Tensor, add: bool = False) -> Tensor:
    """a [N, K] by b [K, M] into, or onto, `out` [N, M]. Rounded once: rounded chunks would add up to a bias."""
    wider = a.dtype != out.dtype
    if wider and a.is_cuda:
        more: dict[str, Any] = {"out_dtype": out.dtype, "out": out}
        return torch.addmm(out, a, b, **more) if add else torch.mm(a, b, **more)
    a, b = (a.to(out.dtype), b.to(out.dtype)) if wider else (a, b)
    return torch.addmm(out, a, b, out=out) if add else torch.mm(a, b, out=out)
