"""Which rows go through the model together."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from isentropic.tensors import largest
from isentropic.types import Mask, Rows, ScoredBatch

Record = TypeVar("Record", bound=Rows)


@dataclass(frozen=True)
class MicroBatch:
    rows: Int[Tensor, " N"]
    width: int  # columns up to the last chosen token
    real: bool  # false: it only keeps this rank in step with the others, and counts for nothing


def micro_batches(mask: Mask, count: int, tokens: int | None) -> list[MicroBatch]:
    """Rows by length, at most `count` together and, where `tokens` is given, at most so many tokens with their padding.

    Every rank gets equally many, since each forward is collective under FSDP.
    """
    columns = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    widths = (mask * columns).amax(-1).clamp(min=2).tolist()
    parts = cut(widths, count, tokens)
    batches = [MicroBatch(torch.tensor(p, device=mask.device), widths[p[0]], real=True) for p in parts]
    filler = MicroBatch(torch.zeros(1, dtype=torch.long, device=mask.device), widths[0] if widths else 2, real=False)
    return batches + [filler] * (largest(len(batches)) - len(batches))


def cut(widths: Sequence[int], count: int, tokens: int | None) -> list[list[int]]:
    """Positions of the rows that go together, the widest first in each part and of all."""
    parts: list[list[int]] = []
    for row in sorted(range(len(widths)), key=lambda r: -widths[r]):
        widest = widths[parts[-1][0]] if parts else 0
        full = not parts or len(parts[-1]) >= count or (tokens is not None and widest * (len(parts[-1]) + 1) > tokens)
        if full:
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
