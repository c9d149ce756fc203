"""Rows end to end, without padding, as a model reads them: each by itself, or a prompt once for all of its answers."""

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
class Shared:
    """Of a line that begins with its prompts, which answers after them share."""

    copies: Int[Tensor, " C"]  # where the prompt of each answer lies, token by token, one answer after another
    copy_starts: Int[Tensor, " A1"]  # where each answer's begins among these, and the last one's ends; int32
    prompts: int  # tokens of all
    longest_prompt: int


@dataclass(frozen=True)
class Line:
    """Rows up to the token before their last chosen one."""

    row: Int[Tensor, " L"]  # of each token, within the micro-batch
    column: Int[Tensor, " L"]
    starts: Int[Tensor, " E"]  # where each row, or prompt and answer, begins, and where the last one ends; int32
    longest: int
    chosen: tuple[Int[Tensor, " K"], Int[Tensor, " K"]]  # row and column of each chosen token
    before: Int[Tensor, " K"]  # the place in the line that predicts it
    shared: Shared | None = None


@dataclass(frozen=True)
class Prompts:
    """Of each row, up to its first chosen token: equal ones have one number."""

    number: list[int]
    length: list[int]

    def of(self, rows: Sequence[int]) -> "Prompts":
        return Prompts([self.number[row] for row in rows], [self.length[row] for row in rows])


def prompts_of(tokens: Ids, mask: Mask) -> Prompts:
    """By their tokens, so that rows that are said to be of one group and are not share nothing."""
    length = mask.int().argmax(-1).clamp(min=1)
    own = tokens.masked_fill(torch.arange(tokens.shape[1], device=tokens.device) >= length[:, None], 0)
    _, number = torch.cat([length[:, None], own], dim=1).unique(dim=0, return_inverse=True)
    return Prompts(number.tolist(), length.tolist())


def lay(mask: Mask, widths: list[int]) -> Line:
    """All that a forward needs is counted here, so that none waits for the device."""
    lengths = torch.tensor([width - 1 for width in widths], device=mask.device)
    starts = pad(lengths.cumsum(0), (1, 0))
    places = torch.arange(sum(widths) - len(widths), device=mask.device)
    row = torch.bucketize(places, starts[1:], right=True)
    chosen_row, previous = mask[:, 1:].nonzero(as_tuple=True)
    chosen = chosen_row, previous + 1
    return Line(row, places - starts[row], starts.int(), max(widths) - 1, chosen, starts[chosen_row] + previous)


def lay_shared(mask: Mask, widths: list[int], prompts: Prompts) -> Line:
    """The same of rows of which those with one prompt are neighbours."""
    device = mask.device
    asked = [row for row, number in enumerate(prompts.number) if row == 0 or number != prompts.number[row - 1]]
    own = [width - 1 - length for width, length in zip(widths, prompts.length, strict=True)]
    lengths = [prompts.length[row] for row in asked] + own
    edges = [0, *accumulate(lengths)]
    begins = torch.tensor(edges, device=device)
    places = torch.arange(edges[-1], device=device)
    piece = torch.bucketize(places, begins[1:], right=True)  # the prompts, then the answers
    rows = torch.tensor([*asked, *range(len(widths))], device=device)
    firsts = torch.tensor([0] * len(asked) + prompts.length, device=device)
    whose = [sum(row >= first for first in asked) - 1 for row in range(len(widths))]
    chosen_row, previous = mask[:, 1:].nonzero(as_tuple=True)
    first = firsts[len(asked) :][chosen_row]
    prompt = torch.tensor([edges[mine] for mine in whose], device=device)[chosen_row] + previous
    answer = begins[len(asked) : -1][chosen_row] + previous - first
    read = [range(edges[mine], edges[mine + 1]) for mine, length in zip(whose, own, strict=True) if length]
    return Line(
        rows[piece],
        places - begins[piece] + firsts[piece],
        torch.tensor([0, *accumulate(length for length in lengths if length)], dtype=torch.int32, device=device),
        max(lengths),
        (chosen_row, previous + 1),
        torch.where(previous < first, prompt, answer),
        Shared(
            torch.tensor([*chain(*read)], device=device, dtype=torch.long),
            torch.tensor([0, *accumulate(map(len, read))], dtype=torch.int32, device=device),
            edges[len(asked)],
            max(lengths[: len(asked)]),
        ),
    )


def runs(widths: Sequence[int], prompts: Prompts, count: int | None, tokens: int | None) -> list[list[int]]:
    """Positions of the rows that go together: neighbours in the order of their prompts, in lines about equally long."""
    order = sorted(range(len(widths)), key=lambda row: prompts.number[row])
    most = sum(widths)
    number = largest(len(filled(order, widths, prompts, count, most if tokens is None else tokens)))
    low, high = 1, most if tokens is None else tokens
    while low < high:
        middle = (low + high) // 2
        enough = len(filled(order, widths, prompts, count, middle)) <= number
        low, high = (low, middle) if enough else (middle + 1, high)
    return filled(order, widths, prompts, count, low)


def filled(
    order: Sequence[int], widths: Sequence[int], prompts: Prompts, count: int | None, limit: int
) -> list[list[int]]:
    """Rows in this order into lines of at most `limit` tokens; only a row alone may be longer."""
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
