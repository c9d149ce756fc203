"""The two passes over logits on a GPU: to log-probs, entropies and their sensitivities, and to the logits' gradient."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportIndexIssue=false
# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportUnknownMemberType=false
# pyright: reportUnnecessaryTypeIgnoreComment=false

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from isentropic.batch import PerTarget

STATS_BLOCK = 4096  # columns that a program of the first pass goes through at one time
WIDE = 8  # of which a thread reads so many in one go
GRAD_BLOCK = 2048  # columns of a program of the second
WARPS = 4
IMPOSSIBLE = tl.constexpr(float("-inf"))
PER_OCTAVE = tl.constexpr(1.4426950408889634)  # exp x = 2^(x / ln 2), which is what the hardware computes
OCTAVE = tl.constexpr(0.6931471805599453)
NOTHING = tl.constexpr(-1024.0)  # octaves, of which 2 to the power is 0

Logits = Float[Tensor, "N W"]
Running = Float[Tensor, "6 N"]  # top, sums of e, e x, e^2, e^2 x with e = 2^x and x = z - top, logit of the target
Stats = tuple[
    PerTarget, PerTarget, PerTarget, PerTarget
]  # log-prob of the target, entropy, sensitivity, log of the sum of exp


def allocate_stats(targets: Int[Tensor, " N"]) -> tuple[Running, Stats]:
    """Memory for the running sums of each row, and for its statistics."""
    count, device = len(targets), targets.device
    logp, entropy, sensitivity, lse = (torch.empty(count, device=device) for _ in range(4))
    return torch.empty(6, count, device=device), (logp, entropy, sensitivity, lse)


def accumulate_stats(
    logits: Logits,
    first: int,
    targets: Int[Tensor, " N"],
    running: Running,
    stats: Stats,
    temperature: float,
    entropy: bool,
    sensitivity: bool,
    begins: bool,
    ends: bool,
) -> None:
    """Adds the columns from `first` on to the running sums of each row, which start with the first chunk.

    With the last chunk it writes the statistics: NaN where they were not asked for.
    """
    rows, width = logits.shape
    lanes = max(1, min(STATS_BLOCK, triton.next_power_of_2(width)) // WIDE)
    logits_stats_kernel[(rows,)](
        logits,
        logits.stride(0),
        width,
        first,
        targets,
        running,
        rows,
        *stats,
        1 / temperature,
        ENTROPY=entropy,
        SENSITIVITY=sensitivity,
        BEGINS=begins,
        ENDS=ends,
        LANES=lanes,
        WIDE=WIDE,
        num_warps=WARPS,  # pyright: ignore[reportCallIssue]
    )


@triton.jit
@no_type_check  # a checker around the function would hide its source from Triton
def rescale_sums(top, mass, slope, squares, square_slope, level):
    """Sums relative to another maximum. Before the first possible token, top is minus infinity and the sums are 0."""
    fall = tl.where(top == IMPOSSIBLE, 0.0, top - level)
    fade = tl.where(top == IMPOSSIBLE, 0.0, tl.exp2(fall))
    slope = fade * (slope + fall * mass)
    square_slope = fade * fade * (square_slope + fall * squares)
    return fade * mass, slope, fade * fade * squares, square_slope


@triton.jit
@no_type_check
def finite_top(top):
    """The maximum, or 0 for a row of nothing possible."""
    return tl.where(top == IMPOSSIBLE, 0.0, top)  # no row is at minus infinity relative to itself


@triton.jit
@no_type_check
def lane_sums(
    line, width, octaves, ENTROPY: tl.constexpr, SENSITIVITY: tl.constexpr, LANES: tl.constexpr, WIDE: tl.constexpr
):
    """Maximum and sums of every lane by itself, so that threads synchronise only at the end of a row."""
    top = tl.full((LANES,), float("-inf"), tl.float32)
    mass, slope = tl.zeros((LANES,), tl.float32), tl.zeros((LANES,), tl.float32)
    squares, square_slope = tl.zeros((LANES,), tl.float32), tl.zeros((LANES,), tl.float32)
    for start in range(0, width, LANES * WIDE):
        column = start + tl.arange(0, LANES)[:, None] * WIDE + tl.arange(0, WIDE)[None, :]
        z = tl.load(line + column, mask=column < width, other=IMPOSSIBLE).to(tl.float32) * octaves
        best = tl.maximum(top, tl.max(z, 1))
        level = finite_top(best)
        mass, slope, squares, square_slope = rescale_sums(top, mass, slope, squares, square_slope, level)
        x = z - level[:, None]
        e = tl.exp2(x)
        mass += tl.sum(e, 1)
        if ENTROPY:
            ex = e * tl.maximum(x, NOTHING)
            slope += tl.sum(ex, 1)
            if SENSITIVITY:
                squares += tl.sum(e * e, 1)
                square_slope += tl.sum(e * ex, 1)
        top = best
    return top, mass, slope, squares, square_slope


@triton.jit
@no_type_check
def conclude(top, mass, slope, squares, square_slope, chosen):
    """Log-prob of the target, entropy, its sensitivity, and the log of the sum of exp."""
    extent = tl.log2(mass)
    logp, entropy = (chosen - top - extent) * OCTAVE, (extent - slope / mass) * OCTAVE
    own = tl.where(logp > IMPOSSIBLE, tl.exp(logp) * (logp + entropy), 0.0)
    everywhere = (square_slope - squares * slope / mass) / mass / mass * OCTAVE
    return logp, entropy, own - everywhere, (top + extent) * OCTAVE


@triton.jit
@no_type_check
def logits_stats_kernel(
    logits, stride, width, first, targets, running, rows, logp, entropy, sensitivity, lse, scale,
    ENTROPY: tl.constexpr, SENSITIVITY: tl.constexpr, BEGINS: tl.constexpr, ENDS: tl.constexpr,
    LANES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One row of a chunk: its running sums, or with the last chunk its statistics. Of accumulate_stats."""
    row = tl.program_id(0).to(tl.int64)  # times the stride, it outgrows 32 bits
    line, known, octaves = logits + row * stride, running + row, scale * PER_OCTAVE
    tops, m, s, q, r = lane_sums(line, width, octaves, ENTROPY, SENSITIVITY, LANES, WIDE)
    target = tl.load(targets + row) - first
    here = (target >= 0) & (target < width)
    chosen = tl.load(line + target, mask=here, other=IMPOSSIBLE).to(tl.float32) * octaves
    top = tl.max(tops, 0)
    if not BEGINS:
        before = tl.load(known)
        top = tl.maximum(top, before)
        chosen = tl.where(here, chosen, tl.load(known + 5 * rows))
    m, s, q, r = rescale_sums(tops, m, s, q, r, finite_top(top))
    m, s, q, r = tl.sum(m, 0), tl.sum(s, 0), tl.sum(q, 0), tl.sum(r, 0)
    if not BEGINS:
        m0, s0 = tl.load(known + rows), tl.load(known + 2 * rows)
        q0, r0 = tl.load(known + 3 * rows), tl.load(known + 4 * rows)
        m0, s0, q0, r0 = rescale_sums(before, m0, s0, q0, r0, finite_top(top))
        m, s, q, r = m + m0, s + s0, q + q0, r + r0
    if ENDS:
        chosen, uncertainty, lean, extent = conclude(top, m, s, q, r, chosen)
        tl.store(logp + row, chosen)
        tl.store(entropy + row, uncertainty if ENTROPY else float("nan"))  # a global NaN would not equal itself
        tl.store(sensitivity + row, lean if SENSITIVITY else float("nan"))
        tl.store(lse + row, extent)
    else:
        tl.store(known, top)
        tl.store(known + rows, m)
        tl.store(known + 2 * rows, s)
        tl.store(known + 3 * rows, q)
        tl.store(known + 4 * rows, r)
        tl.store(known + 5 * rows, chosen)


def logits_grad(
    logits: Logits,
    first: int,
    targets: Int[Tensor, " N"],
    lse: PerTarget,  # log of the sum of exp
    entropy: PerTarget,
    grad_output: PerTarget,  # on the log-prob
    entropy_grad_output: PerTarget | None,
    temperature: float,
) -> None:
    """In place: logits become the gradient of the loss, given the gradients at each row's log-prob and entropy."""
    rows, width = logits.shape
    columns = min(GRAD_BLOCK, triton.next_power_of_2(width))
    logits_grad_kernel[(rows, triton.cdiv(width, columns))](
        logits,
        logits.stride(0),
        width,
        first,
        targets,
        lse,
        entropy,
        grad_output,
        grad_output if entropy_grad_output is None else entropy_grad_output,
        1 / temperature,
        ENTROPY=entropy_grad_output is not None,
        BLOCK=columns,
        num_warps=WARPS,  # pyright: ignore[reportCallIssue]
    )


@triton.jit
@no_type_check  # a checker around the function would hide its source from Triton
def logits_grad_kernel(
    logits,
    stride,
    width,
    first,
    targets,
    lse,
    entropy,
    grad_output,
    entropy_grad_output,
    scale,
    ENTROPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One block of one row: the gradient of log-prob and entropy takes the place of the logits."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = logits + row * stride + column
    z = tl.load(place, mask=column < width, other=IMPOSSIBLE).to(tl.float32) * scale
    g, target = tl.load(grad_output + row), tl.load(targets + row) - first
    log_p = z - tl.load(lse + row)
    p = tl.exp(log_p)
    gradient = tl.where(column == target, g, 0.0) - g * p
    if ENTROPY:
        surprise = tl.where(z > IMPOSSIBLE, log_p + tl.load(entropy + row), 0.0)
        gradient -= tl.load(entropy_grad_output + row) * p * surprise
    tl.store(place, (gradient * scale).to(logits.dtype.element_ty), mask=column < width)
