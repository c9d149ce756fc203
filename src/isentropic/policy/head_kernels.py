"""Two passes over logits on a GPU: what their rows amount to, and their gradient, which takes their place."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportIndexIssue=false
# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportUnknownMemberType=false
# pyright: reportUnnecessaryTypeIgnoreComment=false

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from isentropic.policy.logprobs import Values

BLOCK = 2048  # columns a program reads at one time
WARPS = 4
IMPOSSIBLE = tl.constexpr(float("-inf"))

Logits = Float[Tensor, "N W"]
Running = Float[Tensor, "6 N"]  # top, sums of e, e x, e^2, e^2 x with e = exp x and x = z - top, logit of the target


def begin(targets: Int[Tensor, " N"]) -> Running:
    running = torch.zeros(6, len(targets), device=targets.device)
    running[0] = running[5] = float("-inf")
    return running


def summarize(
    logits: Logits,
    first: int,
    targets: Int[Tensor, " N"],
    running: Running,
    temperature: float,
    entropy: bool,
    sensitivity: bool,
) -> None:
    """Adds the columns from `first` on to what is known of each row."""
    rows, width = logits.shape
    summarize_row[(rows,)](
        logits,
        logits.stride(0),
        width,
        first,
        targets,
        running,
        rows,
        1 / temperature,
        ENTROPY=entropy,
        SENSITIVITY=sensitivity,
        BLOCK=block(width),
        num_warps=WARPS,  # pyright: ignore[reportCallIssue]
    )


def conclude(running: Running) -> tuple[Values, Values, Values, Values]:
    """Log-prob of the target, entropy, its sensitivity, and the log of the sum of exp."""
    top, mass, slope, squares, square_slope, chosen = running
    size = mass.log()
    logp = chosen - top - size
    entropy = size - slope / mass
    everywhere = (square_slope - squares * slope / mass) / mass.square()
    own = torch.where(logp > float("-inf"), logp.exp() * (logp + entropy), 0)
    return logp, entropy, own - everywhere, top + size


def differentiate(
    logits: Logits,
    first: int,
    targets: Int[Tensor, " N"],
    size: Values,  # log of the sum of exp
    entropy: Values,
    pull: Values,  # on the log-prob
    entropy_pull: Values | None,
    temperature: float,
) -> None:
    """Replaces the logits by the gradient of the loss, which the loss's derivatives in each row's values give."""
    rows, width = logits.shape
    columns = block(width)
    differentiate_block[(rows, triton.cdiv(width, columns))](
        logits,
        logits.stride(0),
        width,
        first,
        targets,
        size,
        entropy,
        pull,
        pull if entropy_pull is None else entropy_pull,
        1 / temperature,
        ENTROPY=entropy_pull is not None,
        BLOCK=columns,
        num_warps=WARPS,  # pyright: ignore[reportCallIssue]
    )


def block(width: int) -> int:
    return min(BLOCK, triton.next_power_of_2(width))


@triton.jit
@no_type_check  # a checker around the function would hide its source from Triton
def summarize_row(
    logits,
    stride,
    width,
    first,
    targets,
    running,
    rows,
    scale,
    ENTROPY: tl.constexpr,
    SENSITIVITY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)  # times the stride, it outgrows 32 bits
    line, known = logits + row * stride, running + row
    top, mass = tl.load(known), tl.load(known + rows)
    slope, squares, square_slope = tl.load(known + 2 * rows), tl.load(known + 3 * rows), tl.load(known + 4 * rows)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        z = tl.load(line + column, mask=column < width, other=IMPOSSIBLE).to(tl.float32) * scale
        best = tl.maximum(top, tl.max(z, 0))
        level = tl.where(best == IMPOSSIBLE, 0.0, best)  # no row is at minus infinity relative to itself
        fade, fall = tl.exp(top - level), tl.where(top == IMPOSSIBLE, 0.0, top - level)
        x = z - level
        e = tl.exp(x)
        if ENTROPY:
            x = tl.where(z > IMPOSSIBLE, x, 0.0)
            slope = fade * (slope + fall * mass) + tl.sum(e * x, 0)
        if SENSITIVITY:
            square_slope = fade * fade * (square_slope + fall * squares) + tl.sum(e * e * x, 0)
            squares = fade * fade * squares + tl.sum(e * e, 0)
        mass = fade * mass + tl.sum(e, 0)
        top = best
    tl.store(known, top)
    tl.store(known + rows, mass)
    if ENTROPY:
        tl.store(known + 2 * rows, slope)
    if SENSITIVITY:
        tl.store(known + 3 * rows, squares)
        tl.store(known + 4 * rows, square_slope)
    target = tl.load(targets + row) - first
    if (target >= 0) & (target < width):
        tl.store(known + 5 * rows, tl.load(line + target).to(tl.float32) * scale)


@triton.jit
@no_type_check  # a checker around the function would hide its source from Triton
def differentiate_block(
    logits,
    stride,
    width,
    first,
    targets,
    size,
    entropy,
    pull,
    entropy_pull,
    scale,
    ENTROPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = logits + row * stride + column
    z = tl.load(place, mask=column < width, other=IMPOSSIBLE).to(tl.float32) * scale
    g, target = tl.load(pull + row), tl.load(targets + row) - first
    log_p = z - tl.load(size + row)
    p = tl.exp(log_p)
    gradient = tl.where(column == target, g, 0.0) - g * p
    if ENTROPY:
        surprise = tl.where(z > IMPOSSIBLE, log_p + tl.load(entropy + row), 0.0)
        gradient -= tl.load(entropy_pull + row) * p * surprise
    tl.store(place, (gradient * scale).to(logits.dtype.element_ty), mask=column < width)
