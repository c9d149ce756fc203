"""Values in order of size, and rows beside the others of their group: what tensors.py is made of, on one device."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from isentropic.batch import Group, PerRow


def in_order(values: Float[Tensor, " M"], below: int, above: int) -> Float[Tensor, "2"]:
    """The values at two places from the smallest, the same or neighbours; NaN comes last."""
    if values.device.type != "cpu" or values.dtype == torch.bfloat16:
        return values.sort().values[[below, above]]  # a GPU sorts faster than it selects
    # numpy selects several times as fast as torch.
    least = np.partition(values.detach().numpy(), below)[below:]
    return torch.from_numpy(np.array([least[0], np.partition(least, above - below)[above - below]]))


def lay_out(group: Group) -> tuple[Int[Tensor, " B"], Int[Tensor, "G N"]]:
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
