"""Which rows go through the model together."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from heapq import heappop, heappush
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from isentropic.batch import Mask, Rows, ScoredBatch
from isentropic.distributed import largest
from isentropic.policy.batching.packing import Line, Prompts, lay, lay_shared, runs

Record = TypeVar("Record", bound=Rows)


@dataclass(frozen=True)
class MicroBatch:
    rows: Int[Tensor, " N"]
    width: int  # columns up to the last chosen token
    real: bool  # false: it only keeps this rank in step with the others, and counts for nothing
    line: Line | None  # null: rows go through as a rectangle


def micro_batches(
    mask: Mask, count: int | None, tokens: int | None, packed: bool, prompts: Prompts | None = None
) -> list[MicroBatch]:
    """Rows that go together: at most `count` and at most so many `tokens`, though one row may be longer.

    Rectangles are of rows of like length, their padding counted; lines are about equally long, and with `prompts` hold
    each once. Every rank gets equally many, since each forward is collective under FSDP.
    """
    widths = widths_of(mask).clamp(min=2).tolist()
    if not packed:
        parts = cut(widths, count, tokens)
    else:
        parts = level(widths, count, tokens) if prompts is None else runs(widths, prompts, count, tokens)
    batches = [micro_batch(mask, part, widths, packed, prompts) for part in parts]
    missing = largest(len(batches)) - len(batches)
    filler = [replace(micro_batch(mask, [0], widths, packed, prompts), real=False)] if missing else []
    return batches + filler * missing


def widths_of(mask: Mask) -> Int[Tensor, " B"]:
    """Columns of each row up to its last chosen token."""
    return (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).amax(-1)


def micro_batch(mask: Mask, part: list[int], widths: list[int], packed: bool, prompts: Prompts | None) -> MicroBatch:
    rows, own, line = torch.tensor(part, device=mask.device), [widths[row] for row in part], None
    if packed:
        line = lay(mask[rows], own) if prompts is None else lay_shared(mask[rows], own, prompts.of(part))
    return MicroBatch(rows, max(own), real=True, line=line)


def level(widths: Sequence[int], count: int | None, tokens: int | None) -> list[list[int]]:
    """Positions of the rows that go together: about equally long parts, as few as the limits allow on every rank."""
    number, again = 0, 1
    while number != again:
        number, again = again, largest(fewest(widths, count, tokens, again))
    return [part for part in shared([width - 1 for width in widths], count, number) if part]


def fewest(widths: Sequence[int], count: int | None, tokens: int | None, number: int) -> int:
    """At least `number`, and so many parts that only a row alone is longer than `tokens`."""
    lengths = [width - 1 for width in widths]
    if count is not None:
        number = max(number, -(-len(lengths) // count))
    if tokens is not None:
        number = max(number, -(-sum(min(length, tokens) for length in lengths) // tokens))
        while any(
            len(part) > 1 and sum(lengths[row] for row in part) > tokens for part in shared(lengths, count, number)
        ):
            number += 1
    return number


def shared(lengths: Sequence[int], count: int | None, number: int) -> list[list[int]]:
    """Positions in so many parts of at most `count`: always the longest that is left into the shortest part."""
    parts: list[list[int]] = [[] for _ in range(number)]
    open_parts = [(0, index) for index in range(number)]  # a heap of the tokens in each
    for row in sorted(range(len(lengths)), key=lambda r: -lengths[r]):
        held, index = heappop(open_parts)
        parts[index].append(row)
        if count is None or len(parts[index]) < count:
            heappush(open_parts, (held + lengths[row], index))
    return parts


def cut(widths: Sequence[int], count: int | None, tokens: int | None) -> list[list[int]]:
    """Positions of the rows that go together, the widest first in each part and of all."""
    parts: list[list[int]] = []
    for row in sorted(range(len(widths)), key=lambda r: -widths[r]):
        widest = widths[parts[-1][0]] if parts else 0
        held = len(parts[-1]) if parts else 0
        if not parts or held == count or (tokens is not None and widest * (held + 1) > tokens):
            parts.append([])
        parts[-1].append(row)
    return parts


def blank(batch: ScoredBatch) -> ScoredBatch:
    """One row that counts for nothing: a rank without rows takes its part in the step all the same."""
    return replace(batch[:1], mask=torch.zeros_like(batch.mask[:1]))


def join(records: Sequence[Record]) -> Record:
    """The rows of all."""
    first = records[0]
    return replace(first, **{f.name: torch.cat([getattr(record, f.name) for record in records]) for f in fields(first)})
