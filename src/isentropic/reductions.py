"""Masked and grouped arithmetic. Whatever is global across ranks is so only here."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isentropic.batch import Group, Mask, PerRow, PerToken, Scalar, Totals
from isentropic.layout import in_order, in_rows, lay_out, side_by_side

Interpolation = Literal["linear", "lower", "higher", "nearest"]
EPS = 1e-6
_ALONE = ContextVar("alone", default=False)


@contextmanager
def alone() -> Generator[None]:
    """Inside, this rank is the only one."""
    token = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(token)


def world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() and not _ALONE.get() else 1


def rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def largest(count: int) -> int:
    """The largest of a number over all ranks."""
    return int(gather(torch.tensor([float(count)], device=_device())).max())


def average(values: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """The mean over ranks."""
    if world_size() > 1:
        values = values.to(_device()) / world_size()
        dist.all_reduce(values)  # pyright: ignore[reportUnknownMemberType]
    return values


def _device() -> torch.device:
    """Where the process group takes tensors from."""
    nccl = world_size() > 1 and dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")


def gather(values: Float[Tensor, " N"]) -> Float[Tensor, " M"]:
    """The values of all ranks, in rank order. Ranks may bring different numbers of them; all must call."""
    if world_size() == 1:
        return values
    count = torch.tensor([len(values)], device=values.device)
    counts = [torch.empty_like(count) for _ in range(world_size())]
    dist.all_gather(counts, count)  # pyright: ignore[reportUnknownMemberType]
    lengths = [int(n) for n in counts]
    if not max(lengths):
        return values
    padded = torch.nn.functional.pad(values, (0, max(lengths) - len(values)))
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded)  # pyright: ignore[reportUnknownMemberType]
    return torch.cat([part[:n] for part, n in zip(parts, lengths, strict=True)])


def exchange(rows: Tensor, leaving: list[int], coming: list[int]) -> Tensor:
    """The first leaving[0] rows go to rank 0, and so on; coming[0] come first, from rank 0. All must call."""
    arrived = rows.new_empty(sum(coming), *rows.shape[1:])
    dist.all_to_all_single(arrived, rows.contiguous(), coming, leaving)  # pyright: ignore[reportUnknownMemberType]
    return arrived


def masked_mean(x: Float[Tensor, "*N"], mask: Bool[Tensor, "*N"]) -> Scalar:
    """The mean over the masked values of all ranks; NaN where there are none."""
    total, count = _sum_and_count(x, mask)
    return (total / count).to(x.dtype)


def masked_std(x: Float[Tensor, "*N"], mask: Bool[Tensor, "*N"], unbiased: bool) -> Scalar:
    """The standard deviation of the masked values of all ranks; zero where all are equal, NaN where there is none."""
    squares, count = _sum_and_count((x - masked_mean(x, mask)) ** 2, mask)
    return (squares / torch.where(count > 1, count - int(unbiased), count)).sqrt().to(x.dtype)


def _sum_and_count(x: Float[Tensor, "*N"], mask: Bool[Tensor, "*N"]) -> Float[Tensor, "2"]:
    # In double: the mean of equal values is then that value, and no order of adding shows.
    sums = torch.stack([torch.where(mask, x, 0).sum(dtype=torch.float64), mask.count_nonzero().double()])
    if world_size() > 1:
        dist.all_reduce(sums)  # pyright: ignore[reportUnknownMemberType]
    return sums


def masked_max(x: Float[Tensor, "*N"], mask: Bool[Tensor, "*N"]) -> Scalar:
    """The largest of the masked values of all ranks, NaN aside; minus infinity where there are none."""
    values = torch.where(mask & ~x.isnan(), x, -math.inf)
    largest = values.max() if values.numel() else x.new_tensor(-math.inf)
    if world_size() > 1:
        dist.all_reduce(largest, dist.ReduceOp.MAX)  # pyright: ignore[reportUnknownMemberType]
    return largest


def row_mean(x: PerToken, mask: Mask) -> PerRow:
    """Each row's mean over its masked tokens; zero in a row without any."""
    return torch.where(mask, x, 0).sum(-1) / mask.sum(-1).clamp(min=1)


def on_tokens(x: PerRow, mask: Mask) -> PerToken:
    """Each row's value on its masked tokens, zero elsewhere."""
    # Twice as fast as torch.where, and as good: a row's value is a number, whatever its padding holds.
    return mask.view(torch.int8).to(x.dtype).mul_(x[:, None])


def top_fraction(x: PerToken, mask: Mask, fraction: float) -> Mask:
    """The largest `fraction` of the masked values over all ranks, at least one of them if there are any.

    What equals the smallest value taken is taken too, so the choice does not depend on the order of rows. NaN is never
    taken, nor counted.
    """
    values, count = _numbers(x, mask)
    if not count or fraction <= 0:
        return torch.zeros_like(mask)
    k = min(count, max(1, int(count * fraction + 0.999999)))  # a ceiling that forgives rounding
    return mask & (x >= in_order(values, count - k, count - k)[0])


def quantile(x: Float[Tensor, "*N"], mask: Bool[Tensor, "*N"], q: float, interpolation: Interpolation) -> Scalar:
    """torch.quantile of the masked values of all ranks, however many; NaN is not counted, and returned for none."""
    values, count = _numbers(x, mask)
    if not count:
        return x.new_tensor(math.nan)
    below, above = math.floor(place := q * (count - 1)), math.ceil(place)
    near = in_order(values, below, above)
    if interpolation == "linear":
        return near[0].lerp(near[1], place - below)
    return near[{"lower": below, "higher": above, "nearest": round(place)}[interpolation] - below]


def _numbers(x: Float[Tensor, "*N"], mask: Bool[Tensor, "*N"]) -> tuple[Float[Tensor, " M"], int]:
    """The masked values of all ranks, and how many of them are not NaN."""
    values = gather(x.masked_select(mask))
    return values, len(values) - int(values.isnan().sum())


def group_sum(x: Float[Tensor, "B *S"], group: Group) -> Float[Tensor, "B *S"]:
    """The sum over each row's group, in place of the row."""
    number, rows = lay_out(group)
    return side_by_side(x, rows).sum(1)[number]


def group_size(group: Group) -> Int[Tensor, " B"]:
    """How many rows each row's group has."""
    number, rows = lay_out(group)
    return (rows < len(group)).sum(1)[number]


def group_mean(x: PerRow, group: Group) -> PerRow:
    """Each row's group mean, in place of the row."""
    return group_sum(x, group) / group_size(group)


def group_centred(x: PerRow, group: Group) -> PerRow:
    """Distance from the group's mean; exactly zero where all are equal, whatever the mean rounds to."""
    rows = lay_out(group)[1]
    return in_rows(_centred(x, rows), rows, len(x))


def group_score(x: PerRow, group: Group) -> PerRow:
    """Distance from the group's mean in units of its unbiased standard deviation; zero in a group without spread."""
    rows = lay_out(group)[1]
    centred = _centred(x, rows)
    variance = (centred**2).sum(1) / ((rows < len(x)).sum(1) - 1).clamp(min=1)
    return in_rows(centred / (variance.sqrt() + EPS)[:, None], rows, len(x))


def _centred(x: PerRow, rows: Int[Tensor, "G N"]) -> Float[Tensor, "G N"]:
    values, there = side_by_side(x, rows), rows < len(x)
    varies = (there & (values != values[:, :1])).any(1, keepdim=True)
    return torch.where(there & varies, values - values.sum(1, keepdim=True) / there.sum(1, keepdim=True), 0)


def totals(mask: Mask) -> Totals:
    """Counts over all ranks, at least 1, divided by the number of ranks: the data-parallel mean restores the sum."""
    counts = torch.stack([mask.sum(), mask.any(-1).sum()])
    if world_size() > 1:
        dist.all_reduce(counts)  # pyright: ignore[reportUnknownMemberType]
    return Totals(*(counts.clamp(min=1).float() / world_size()))


def share(tokens: Mask, totals: Totals) -> Scalar:
    """What these tokens are of a step's: add up over micro-batches, and the mean over ranks is the step's share."""
    return tokens.sum() / totals.tokens
