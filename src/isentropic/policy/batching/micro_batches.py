"""Which rows go through the model in one forward?"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from heapq import heappop, heappush
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from isentropic.batch import Mask, Rows, ScoredBatch
from isentropic.distributed import largest
from isentropic.policy.batching.packing import PackedSequences, Prompts, pack, pack_shared_prompts, split_by_prompt

Record = TypeVar("Record", bound=Rows)


@dataclass(frozen=True)
class MicroBatch:
    """The rows of one forward on one rank."""

    rows: Int[Tensor, " N"]
    width: int  # columns up to the last target
    real: bool  # false: a dummy that keeps FSDP collectives in step and counts for nothing
    packed: PackedSequences | None  # null: rows are padded to a rectangle


def micro_batches(
    mask: Mask, count: int | None, tokens: int | None, packed: bool, prompts: Prompts | None = None
) -> list[MicroBatch]:
    """At most `count` rows and `tokens` tokens each, though a single row may have more.

    Padded rectangles hold rows of similar length, and padding counts; packs are about equally long, and with `prompts`
    hold each prompt once. Every rank gets equally many, since each forward is collective under FSDP.
    """
    widths = widths_of(mask).clamp(min=2).tolist()
    if not packed:
        parts = split_padded(widths, count, tokens)
    else:
        parts = (
            split_evenly(widths, count, tokens) if prompts is None else split_by_prompt(widths, prompts, count, tokens)
        )
    batches = [micro_batch(mask, part, widths, packed, prompts) for part in parts]
    missing = largest(len(batches)) - len(batches)
    filler = [replace(micro_batch(mask, [0], widths, packed, prompts), real=False)] if missing else []
    return batches + filler * missing


def widths_of(mask: Mask) -> Int[Tensor, " B"]:
    """Columns of each row up to its last target."""
    return (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).amax(-1)


def micro_batch(mask: Mask, part: list[int], widths: list[int], packed: bool, prompts: Prompts | None) -> MicroBatch:
    """Of the rows `part`; `widths` are columns up to each row's last target. With `prompts`, each is packed once."""
    rows, own, sequences = torch.tensor(part, device=mask.device), [widths[row] for row in part], None
    if packed:
        sequences = pack(mask[rows], own) if prompts is None else pack_shared_prompts(mask[rows], own, prompts.of(part))
    return MicroBatch(rows, max(own), real=True, packed=sequences)


def split_evenly(widths: Sequence[int], count: int | None, tokens: int | None) -> list[list[int]]:
    """Indices of the rows of each pack: about equally long, as few as the limits allow on every rank."""
    number, again = 0, 1
    while number != again:
        number, again = again, largest(fewest_parts(widths, count, tokens, again))
    return [part for part in longest_first([width - 1 for width in widths], count, number) if part]


def fewest_parts(widths: Sequence[int], count: int | None, tokens: int | None, number: int) -> int:
    """The least count, from `number` on, at which only single rows exceed `tokens`."""
    lengths = [width - 1 for width in widths]
    if count is not None:
        number = max(number, -(-len(lengths) // count))
    if tokens is not None:
        number = max(number, -(-sum(min(length, tokens) for length in lengths) // tokens))
        while any(
            len(part) > 1 and sum(lengths[row] for row in part) > tokens
            for part in longest_first(lengths, count, number)
        ):
            number += 1
    return number


def longest_first(lengths: Sequence[int], count: int | None, number: int) -> list[list[int]]:
    """Indices in so many parts of at most `count`: always the longest row left into the shortest part."""
    parts: list[list[int]] = [[] for _ in range(number)]
    open_parts = [(0, index) for index in range(number)]  # a heap of the tokens in each
    for row in sorted(range(len(lengths)), key=lambda r: -lengths[r]):
        held, index = heappop(open_parts)
        parts[index].append(row)
        if count is None or len(parts[index]) < count:
            heappush(open_parts, (held + lengths[row], index))
    return parts


def split_padded(widths: Sequence[int], count: int | None, tokens: int | None) -> list[list[int]]:
    """Indices of the rows of each padded rectangle, the widest first in each and of all."""
    parts: list[list[int]] = []
    for row in sorted(range(len(widths)), key=lambda r: -widths[r]):
        widest = widths[parts[-1][0]] if parts else 0
        held = len(parts[-1]) if parts else 0
        if not parts or held == count or (tokens is not None and widest * (held + 1) > tokens):
            parts.append([])
        parts[-1].append(row)
    return parts


def dummy_row(batch: ScoredBatch) -> ScoredBatch:
    """For a rank without rows: keeps FSDP collectives in step and counts for nothing."""
    return replace(batch[:1], mask=torch.zeros_like(batch.mask[:1]))


def concat(records: Sequence[Record]) -> Record:
    """The rows of all records."""
    first = records[0]
    return replace(first, **{f.name: torch.cat([getattr(record, f.name) for record in records]) for f in fields(first)})
