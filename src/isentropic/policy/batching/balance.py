"""Groups move between ranks until all have about equally many tokens: every step waits for the slowest rank."""

from dataclasses import fields, replace

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from isentropic.batch import RolloutBatch
from isentropic.distributed import exchange, gather, largest, rank, world_size
from isentropic.policy.batching.micro_batches import longest_first, widths_of


def balanced(batch: RolloutBatch, updates: int) -> RolloutBatch:
    """Whole groups, each within the optimizer step that it belonged to, and every rank keeps its number of answers.

    So all that is learnt stays the same, but for statistics of scope=rank or micro_batch. A batch stays as it is where
    ranks hold unequal numbers of answers, groups are unequal, or a step begins within a group. All ranks must call.
    """
    ranks = world_size()
    if ranks == 1:
        return batch
    size = group_size_of(batch.group)
    number = len(batch.group) // size if size else 0  # of groups
    agreed = gather(torch.tensor([size, number], dtype=torch.float32, device=batch.mask.device)).view(-1, 2)
    if not size or number % updates or not (agreed == agreed[0]).all():
        return batch
    lengths = widths_of(batch.mask).view(number, size).sum(1)
    leaving, steps = plan_moves(gather(lengths.float()).view(ranks, updates, -1).long())
    answer = torch.arange(size)
    rows = torch.tensor([group for part in leaving for group in part])[:, None] * size + answer
    sent, came = [len(part) * size for part in leaving], [len(part) * size for part in steps]
    order = torch.tensor([step for part in steps for step in part]).repeat_interleave(size).argsort(stable=True)
    width = largest(batch.mask.shape[1])

    def moved(values: Tensor) -> Tensor:
        if values.dim() > 1:
            values = pad(values, (0, width - values.shape[1]))
        plain = values.view(torch.uint8) if values.dtype == torch.bool else values
        return exchange(plain[rows.flatten().to(plain.device)], sent, came)[order].to(values.dtype)

    return replace(batch, **{f.name: moved(getattr(batch, f.name)) for f in fields(RolloutBatch)})


def group_size_of(group: Int[Tensor, " B"]) -> int:
    """Rows of each group, if all groups have equally many and each is contiguous; else 0."""
    size = int((group == group[:1]).sum())
    whole = size and len(group) % size == 0 and (group.view(-1, size) == group[::size, None]).all()
    return size if whole and len(group[::size].unique()) == len(group) // size else 0


def plan_moves(lengths: Int[Tensor, "R U N"]) -> tuple[list[list[int]], list[list[int]]]:
    """Of lengths by rank, optimizer step and group: the groups that go from here to each rank, and the optimizer steps
    of those that come from each."""
    ranks, updates, number = lengths.shape
    leaving: list[list[int]] = [[] for _ in range(ranks)]
    steps: list[list[int]] = [[] for _ in range(ranks)]
    for step in range(updates):
        for to, part in enumerate(longest_first(lengths[:, step].flatten().tolist(), number, ranks)):
            for source, group in (divmod(place, number) for place in sorted(part)):
                if source == rank():
                    leaving[to].append(step * number + group)
                if to == rank():
                    steps[source].append(step)
    return leaving, steps
