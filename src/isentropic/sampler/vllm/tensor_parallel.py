"""Ranks that hold one engine together: each is a part of its model, and all draw the same completions."""

import torch.distributed as dist

from isentropic.sampler.vllm.sampling_params import Row


def check_tensor_parallel(size: int, ranks: int) -> None:
    """Raises ValueError where `ranks` cannot be parted into teams of `size`."""
    if size < 1:
        raise ValueError(f"sampler.tensor_parallel_size={size} is not at least 1")
    if ranks % size:
        raise ValueError(
            f"sampler.tensor_parallel_size={size} does not divide the {ranks} ranks, each of which is part of an "
            f"engine; take a number of devices that it divides"
        )


class TensorParallelGroup:
    """Those of this rank's engine, which are neighbours. To be made by all ranks at the same time."""

    def __init__(self, size: int) -> None:
        check_tensor_parallel(size, dist.get_world_size())
        teams = [range(first, first + size) for first in range(0, dist.get_world_size(), size)]
        groups = [dist.new_group(list(team), backend="gloo") for team in teams]  # objects, which gloo sends from memory
        self.place = dist.get_rank() % size
        self.group = groups[dist.get_rank() // size]
        self.size = size

    def together(self, rows: list[Row] | None) -> tuple[list[Row], slice]:
        """The rows of all in the order of the ranks, and which are this rank's; where all come with None, none."""
        parts: list[list[Row] | None] = [None] * self.size
        dist.all_gather_object(parts, rows, group=self.group)
        lengths = [len(part or ()) for part in parts]
        first = sum(lengths[: self.place])
        return [row for part in parts for row in part or ()], slice(first, first + lengths[self.place])
