"""Masked and grouped arithmetic, over the rows of all ranks."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isentropic.batch import Group, Mask, PerRow, PerToken, Scalar, Totals
from isentropic.distributed import gather, max_over_ranks, sum_over_ranks, world_size

Interpolation = Literal["linear", "lower", "higher", "nearest"]
EPS = 1e-6


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
    return sum_over_ranks(
        torch.stack([torch.where(mask, x, 0).sum(dtype=torch.float64), mask.count_nonzero().double()])
    )


def masked_max(x: Float[Tensor, "*N"], mask: Bool[Tensor, "*N"]) -> Scalar:
    """The largest of the masked values of all ranks, NaN aside; minus infinity where there are none."""
    values = torch.where(mask & ~x.isnan(), x, -math.inf)
    return max_over_ranks(values.max() if values.numel() else x.new_tensor(-math.inf))


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


def quantiles(x: Float[Tensor, "*N"], mask: Bool[Tensor, "*N"], shares: Sequence[float]) -> Float[Tensor, " Q"]:
    """torch.quantile of the masked values of all ranks at several shares, sorted once; NaN is as for one of them."""
    values, count = _numbers(x, mask)
    if not count:
        return x.new_full((len(shares),), math.nan)
    place = torch.tensor(shares, dtype=torch.float64, device=values.device) * (count - 1)
    ordered = values.sort().values
    low, high = ordered[place.floor().long()], ordered[place.ceil().long()]
    return low.lerp(high, (place - place.floor()).to(low.dtype))


def _numbers(x: Float[Tensor, "*N"], mask: Bool[Tensor, "*N"]) -> tuple[Float[Tensor, " M"], int]:
    """The masked values of all ranks, and how many of them are not NaN."""
    values = gather(x.masked_select(mask))
    return values, len(values) - int(values.isnan().sum())


def group_sum(x: Float[Tensor, "B *S"], group: Group) -> Float[Tensor, "B *S"]:
    """The sum over each row's group, in place of the row."""
    number, rows = group_index(group)
    return side_by_side(x, rows).sum(1)[number]


def group_size(group: Group) -> Int[Tensor, " B"]:
    """How many rows each row's group has."""
    number, rows = group_index(group)
    return (rows < len(group)).sum(1)[number]


def group_mean(x: PerRow, group: Group) -> PerRow:
    """Each row's group mean, in place of the row."""
    return group_sum(x, group) / group_size(group)


def group_centred(x: PerRow, group: Group) -> PerRow:
    """Distance from the group's mean; exactly zero where all are equal, whatever the mean rounds to."""
    rows = group_index(group)[1]
    return in_rows(_centred(x, rows), rows, len(x))


def group_score(x: PerRow, group: Group) -> PerRow:
    """Distance from the group's mean in units of its unbiased standard deviation; zero in a group without spread."""
    rows = group_index(group)[1]
    centred = _centred(x, rows)
    variance = (centred**2).sum(1) / ((rows < len(x)).sum(1) - 1).clamp(min=1)
    return in_rows(centred / (variance.sqrt() + EPS)[:, None], rows, len(x))


def _centred(x: PerRow, rows: Int[Tensor, "G N"]) -> Float[Tensor, "G N"]:
    values, there = side_by_side(x, rows), rows < len(x)
    varies = (there & (values != values[:, :1])).any(1, keepdim=True)
    return torch.where(there & varies, values - values.sum(1, keepdim=True) / there.sum(1, keepdim=True), 0)


def soft_overlong(length: Int[Tensor, " B"], max_length: int, buffer: int) -> PerRow:
    """DAPO, eq. 13, as what is taken off: 0 up to max_length - buffer, then a line to 1 at max_length, and no more."""
    return ((length - (max_length - buffer)) / buffer).clamp(0, 1)


def totals(mask: Mask) -> Totals:
    """Counts over all ranks, at least 1, divided by the number of ranks: the data-parallel mean restores the sum."""
    counts = sum_over_ranks(torch.stack([mask.sum(), mask.any(-1).sum()]))
    return Totals(*(counts.clamp(min=1).float() / world_size()))


def share(tokens: Mask, totals: Totals) -> Scalar:
    """What these tokens are of a step's: add up over micro-batches, and the mean over ranks is the step's share."""
    return tokens.sum() / totals.tokens


def in_order(values: Float[Tensor, " M"], below: int, above: int) -> Float[Tensor, "2"]:
    """The values at two places from the smallest, the same or neighbours; NaN comes last."""
    if values.device.type != "cpu" or values.dtype == torch.bfloat16:
        return values.sort().values[[below, above]]  # a GPU sorts faster than it selects
    # numpy selects several times as fast as torch.
    least = np.partition(values.detach().numpy(), below)[below:]
    return torch.from_numpy(np.array([least[0], np.partition(least, above - below)[above - below]]))


def group_index(group: Group) -> tuple[Int[Tensor, " B"], Int[Tensor, "G N"]]:
    """Each row's group, counted from 0; and each group's rows side by side, filled up with the number of rows.

    Sums over these are the same at every run, which those of scattered additions on a GPU are not.
    """
    _, number, count = torch.unique(group, return_inverse=True, return_counts=True)
    order = number.argsort(stable=True)
    column = torch.arange(len(group), device=group.device) - (count.cumsum(0) - count)[number[order]]
    rows = number.new_full((len(count), int(count.max()) if len(count) else 1), len(group))
    rows[number[order], column] = order
    return number, rows


def side_by_side(x: Float[Tensor, "B *S"], rows: Int[Tensor, "G N"]) -> Float[Tensor, "G N *S"]:
    """What belongs to these rows; zero where a group has fewer."""
    return torch.cat([x, x.new_zeros(1, *x.shape[1:])])[rows]


def in_rows(x: Float[Tensor, "G N"], rows: Int[Tensor, "G N"], count: int) -> PerRow:
    """The way back: each value to its row."""
    return x.new_empty(count + 1).index_put((rows,), x)[:-1]
