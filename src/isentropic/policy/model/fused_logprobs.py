"""The log-prob head on a GPU: the vocabulary in spans, whose logits are kept as far as memory goes, else made again.

Three products are the least: logits, gradient of the states, gradient of the weight. Logits that are not kept cost a
fourth. So the memory of a chunk, when it has served for all others, keeps the logits of as many tokens as it holds; and
so does the weight's gradient, until it is written, of which the rows for span 1 lie where logits of span 0 were:

    gradient of the weight   | its rows for span 0 | logits of span 0 | logits of span 1    |
    chunk                    | logits of span 4, then of span 3, then, kept, of span 2      |
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from isentropic.policy.model.head_gradient import differentiate
from isentropic.policy.model.head_summary import begin, summarize
from isentropic.policy.model.logprobs import Entropy, Values

ALIGNED = 64  # tokens to which a span is rounded
ROW = 8  # tokens to which a row of logits is: 16 bytes, which tensor cores ask for


@dataclass(frozen=True)
class Span:
    """Tokens from first to last, and where their logits are."""

    first: int
    last: int
    logits: Float[Tensor, "N W"]
    kept: bool


def lay_out(
    rows: int, weight: Float[Tensor, "V D"], dtype: torch.dtype, chunk: int, learns: bool
) -> tuple[Float[Tensor, "V D"] | None, list[Span]]:
    """Memory for the weight's gradient where it learns, and the spans in the order of the backward pass.

    Beside the gradient, no more than chunk * V logits have room, but at least 64 of each row.
    """
    vocabulary, dim = weight.shape
    gradient, spans, first = None, list[Span](), 0
    if learns:
        gradient = torch.empty(vocabulary, dim, dtype=weight.dtype, device=weight.device)
        own, other = dim * weight.dtype.itemsize, rows * dtype.itemsize  # bytes of a token: gradient, logits
        head = vocabulary * own**2 // (own**2 + (own + other) * other) // ALIGNED * ALIGNED
        first = head + head * other // own // ALIGNED * ALIGNED  # so that rows up to here end where its logits begin
        memory = gradient.view(-1)[head * dim :].view(dtype)
        edges = sorted({0, head, first})
        spans += [Span(a, b, matrix(memory[rows * a :], rows, b - a), True) for a, b in pairwise(edges)]
    room = min(max(chunk * vocabulary // rows // ALIGNED, 1) * ALIGNED, vocabulary - first)
    memory = torch.empty(rows * up(room, ROW), dtype=dtype, device=weight.device)
    spans.append(Span(first, first + room, matrix(memory, rows, room), True))
    left = vocabulary - first - room
    step = up(-(-left // -(-left // room)), ALIGNED) if left else 1
    for start in range(first + room, vocabulary, step):
        last = min(start + step, vocabulary)
        spans.append(Span(start, last, matrix(memory, rows, last - start), False))
    return gradient, spans


def up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def matrix(memory: Tensor, rows: int, width: int) -> Float[Tensor, "N W"]:
    return memory[: rows * up(width, ROW)].view(rows, up(width, ROW))[:, :width]


def fused_stats(
    states: Float[Tensor, "N D"],
    head: nn.Linear,
    targets: Int[Tensor, " N"],
    temperature: float,
    chunk: int,
    wanted: Entropy,
) -> tuple[Values, Values, Values]:
    """`row_stats` with products in the type of autocast, where it is on, else in the weight's.

    One backward pass only: it leaves the logits' gradient where they were.
    """
    device = states.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else head.weight.dtype
    keep = torch.is_grad_enabled()
    values: Any = FusedStats.apply(
        states, head.weight, head.bias, targets.contiguous(), temperature, chunk, wanted, dtype, keep
    )
    return values


class FusedStats(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"] | None,
        targets: Int[Tensor, " N"],
        temperature: float,
        chunk: int,
        wanted: Entropy,
        dtype: torch.dtype,
        keep: bool,
    ) -> tuple[Values, Values, Values]:
        ctx.dtype, ctx.temperature, ctx.wanted = states.dtype, temperature, wanted
        states = states.detach().to(dtype)
        ctx.memory = _, spans = lay_out(max(len(states), 1), weight, dtype, chunk, keep and ctx.needs_input_grad[1])
        running, found = begin(targets)
        for span in reversed(spans) if len(states) else ():
            fill(span, states, weight, bias)
            ends = span is spans[-1], span is spans[0]
            asked = wanted != "none", wanted == "value"
            summarize(span.logits, span.first, targets, running, found, temperature, *asked, *ends)
        logp, entropy, sensitivity, size = found
        ctx.save_for_backward(states, weight, bias, targets, size, entropy)
        ctx.mark_non_differentiable(*([sensitivity] if wanted == "gradient" else [entropy, sensitivity]))
        return logp, entropy, sensitivity

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, pull: Values, entropy_pull: Values, _: Values
    ) -> tuple[Tensor | None, ...]:
        states, weight, bias, targets, size, entropy = ctx.saved_tensors
        if ctx.memory is None:
            raise RuntimeError("a second backward pass through the head: the first one has used up its logits")
        (weight_gradient, spans), ctx.memory = ctx.memory, None
        learns_states, _, learns_bias = ctx.needs_input_grad[:3]
        gradient = None if len(states) else torch.zeros_like(states)  # a sum over spans, in fp32
        bias_gradient = torch.zeros(len(weight), device=states.device) if learns_bias else None
        if weight_gradient is not None and not len(states):
            weight_gradient.zero_()
        while spans and len(states):
            span = spans.pop(0)
            tokens, d = slice(span.first, span.last), span.logits
            if not span.kept:
                fill(span, states, weight, bias)
            differentiate(
                d,
                span.first,
                targets,
                size,
                entropy,
                pull.contiguous(),
                entropy_pull.contiguous() if ctx.wanted == "gradient" else None,
                ctx.temperature,
            )
            if weight_gradient is not None:
                product(d.T, states, weight_gradient[tokens])
            if learns_states:
                out = torch.empty(states.shape, device=states.device) if gradient is None else gradient
                gradient = product(d, weight[tokens].to(d.dtype), out, add=gradient is not None)
            if bias_gradient is not None:
                bias_gradient[tokens] = d.sum(0, dtype=torch.float32)
            del span, d  # so that none of the logits is left beside what is made of the sums
        gradient = gradient.to(ctx.dtype) if learns_states and gradient is not None else None
        bias_gradient = None if bias_gradient is None else bias_gradient.to(bias.dtype)
        return gradient, weight_gradient, bias_gradient, *[None] * 6


def fill(span: Span, states: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    tokens = slice(span.first, span.last)
    part = weight[tokens].to(states.dtype).T  # a cast copy of a whole head would outweigh the logits
    if bias is None:
        product(states, part, span.logits)
    else:
        torch.addmm(bias[tokens].to(states.dtype), states, part, out=span.logits)


def product(a: Tensor, b: Tensor, out: Tensor, add: bool = False) -> Tensor:
    """Rounded once, to the type of `out`: rounded spans would add up to a biased gradient."""
    wider = a.dtype != out.dtype
    if wider and a.is_cuda:
        more: dict[str, Any] = {"out_dtype": out.dtype, "out": out}
        return torch.addmm(out, a, b, **more) if add else torch.mm(a, b, **more)
    a, b = (a.to(out.dtype), b.to(out.dtype)) if wider else (a, b)
    return torch.addmm(out, a, b, out=out) if add else torch.mm(a, b, out=out)
