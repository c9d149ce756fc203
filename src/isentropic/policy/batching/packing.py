"""Packed (varlen) sequences, without padding: each row by itself, or a prompt once for all of its answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from isentropic.batch import Ids, Mask
from isentropic.distributed import largest


@dataclass(frozen=True)
class SharedPrompts:
    """Of a pack that begins with its prompts, which the answers after them share."""

    prompt_index: Int[Tensor, " C"]  # positions of each answer's prompt tokens, one answer after another
    cu_prompt_lens: Int[Tensor, " A1"]  # cumulative lengths of these, by answer; int32
    prompt_tokens: int  # of all prompts
    max_prompt_len: int  # tokens


@dataclass(frozen=True)
class PackedSequences:
    """Rows one after another, each up to the token before its last target: what flash attention calls varlen."""

    row: Int[Tensor, " L"]  # of each token, within the micro-batch
    column: Int[Tensor, " L"]  # ... which is its position id too
    cu_seqlens: Int[Tensor, " E"]  # cumulative lengths of rows, or of prompts and answers; int32
    max_seqlen: int  # tokens
    targets: tuple[Int[Tensor, " K"], Int[Tensor, " K"]]  # row and column of each token that the policy chose
    predictors: Int[Tensor, " K"]  # positions in the pack prompt_of hidden states predict them
    shared: SharedPrompts | None = None


@dataclass(frozen=True)
class Prompts:
    """Of each row, up to its first target: equal prompts have one number."""

    number: list[int]
    length: list[int]

    def of(self, rows: Sequence[int]) -> "Prompts":
        """Those of some rows, in their order."""
        return Prompts([self.number[row] for row in rows], [self.length[row] for row in rows])


def prompts_of(tokens: Ids, mask: Mask) -> Prompts:
    """Compared by their tokens, not by the group that rows are said to be of."""
    length = mask.int().argmax(-1).clamp(min=1)
    own = tokens.masked_fill(torch.arange(tokens.shape[1], device=tokens.device) >= length[:, None], 0)
    _, number = torch.cat([length[:, None], own], dim=1).unique(dim=0, return_inverse=True)
    return Prompts(number.tolist(), length.tolist())


def pack(mask: Mask, widths: list[int]) -> PackedSequences:
    """Everything that a forward needs is computed here, so that no forward synchronises with the device."""
    lengths = torch.tensor([width - 1 for width in widths], device=mask.device)
    cu_seqlens = pad(lengths.cumsum(0), (1, 0))
    positions = torch.arange(sum(widths) - len(widths), device=mask.device)
    row = torch.bucketize(positions, cu_seqlens[1:], right=True)
    target_row, previous = mask[:, 1:].nonzero(as_tuple=True)
    targets = target_row, previous + 1
    return PackedSequences(
        row, positions - cu_seqlens[row], cu_seqlens.int(), max(widths) - 1, targets, cu_seqlens[target_row] + previous
    )


def pack_shared_prompts(mask: Mask, widths: list[int], prompts: Prompts) -> PackedSequences:
    """The same, each prompt once; rows with equal prompts must be neighbours."""
    device = mask.device
    first_rows = [row for row, number in enumerate(prompts.number) if row == 0 or number != prompts.number[row - 1]]
    own = [width - 1 - length for width, length in zip(widths, prompts.length, strict=True)]
    lengths = [prompts.length[row] for row in first_rows] + own
    edges = [0, *accumulate(lengths)]
    piece_starts = torch.tensor(edges, device=device)
    positions = torch.arange(edges[-1], device=device)
    piece = torch.bucketize(positions, piece_starts[1:], right=True)  # the prompts, then the answers
    rows = torch.tensor([*first_rows, *range(len(widths))], device=device)
    firsts = torch.tensor([0] * len(first_rows) + prompts.length, device=device)
    prompt_of = [sum(row >= first for first in first_rows) - 1 for row in range(len(widths))]
    target_row, previous = mask[:, 1:].nonzero(as_tuple=True)
    first = firsts[len(first_rows) :][target_row]
    prompt = torch.tensor([edges[which] for which in prompt_of], device=device)[target_row] + previous
    answer = piece_starts[len(first_rows) : -1][target_row] + previous - first
    read = [range(edges[which], edges[which + 1]) for which, length in zip(prompt_of, own, strict=True) if length]
    return PackedSequences(
        rows[piece],
        positions - piece_starts[piece] + firsts[piece],
        torch.tensor([0, *accumulate(length for length in lengths if length)], dtype=torch.int32, device=device),
        max(lengths),
        (target_row, previous + 1),
        torch.where(previous < first, prompt, answer),
        SharedPrompts(
            torch.tensor([*chain(*read)], device=device, dtype=torch.long),
            torch.tensor([0, *accumulate(map(len, read))], dtype=torch.int32, device=device),
            edges[len(first_rows)],
            max(lengths[: len(first_rows)]),
        ),
    )


def split_by_prompt(widths: Sequence[int], prompts: Prompts, count: int | None, tokens: int | None) -> list[list[int]]:
    """Indices of the rows of each pack: in the order of their prompts, packs about equally long."""
    order = sorted(range(len(widths)), key=lambda row: prompts.number[row])
    most = sum(widths)
    number = largest(len(fill_in_order(order, widths, prompts, count, most if tokens is None else tokens)))
    low, high = 1, most if tokens is None else tokens
    while low < high:
        middle = (low + high) // 2
        enough = len(fill_in_order(order, widths, prompts, count, middle)) <= number
        low, high = (low, middle) if enough else (middle + 1, high)
    return fill_in_order(order, widths, prompts, count, low)


def fill_in_order(
    order: Sequence[int], widths: Sequence[int], prompts: Prompts, count: int | None, limit: int
) -> list[list[int]]:
    """Rows in this order into packs of at most `limit` tokens; only a single row may exceed it."""
    parts, held, last = list[list[int]](), 0, -1
    for row in order:
        own, length, number = widths[row] - 1 - prompts.length[row], prompts.length[row], prompts.number[row]
        more = own + (0 if parts and number == last else length)
        if not parts or held + more > limit or len(parts[-1]) == count:
            parts.append([])
            held, more = 0, own + length
        parts[-1].append(row)
        held, last = held + more, number
    return parts
