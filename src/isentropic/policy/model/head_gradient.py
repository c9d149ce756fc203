"""The pass over logits on a GPU that replaces them by their gradient."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportIndexIssue=false
# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportUnknownMemberType=false
# pyright: reportUnnecessaryTypeIgnoreComment=false

from typing import no_type_check

import triton
import triton.language as tl
from jaxtyping import Int
from torch import Tensor

from isentropic.policy.model.head_summary import IMPOSSIBLE, Logits
from isentropic.policy.model.logprobs import Values

BLOCK = 2048  # columns of a program
WARPS = 4


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
    columns = min(BLOCK, triton.next_power_of_2(width))
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
