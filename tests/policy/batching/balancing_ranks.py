"""One rank of three, run by test_balance.py as `balancing_ranks.py FOLDER RANK`: groups before and after they moved."""

import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from isentropic.batch import RolloutBatch
from isentropic.policy.batching.balance import balanced

RANKS, GROUPS, ANSWERS = 3, 16, 4  # groups of each rank


def batch_of(rank, width=40):
    """Rows of any length, on one rank mostly short ones; the id of a token says whose it is."""
    generator = torch.Generator().manual_seed(rank)
    rows = GROUPS * ANSWERS
    length = torch.randint(3, width // (1 + rank), (rows, 1), generator=generator)
    column = torch.arange(width)
    row = torch.arange(rows)
    return RolloutBatch(
        tokens=(rank * rows + row)[:, None] * width + column,
        mask=(column > 1) & (column < length),
        group=row // ANSWERS * RANKS + rank,
        reward=torch.rand(rows, generator=generator),
        correct=torch.rand(rows, generator=generator) > 0.5,
        truncated=torch.rand(rows, generator=generator) > 0.5,
        sampler_logp=-torch.rand(rows, width, generator=generator).double(),
    )


def cases(rank):
    """By name, a rank's rows and the number of optimizer steps."""
    own = batch_of(rank)
    return {
        "one step": (own, 1),
        "four steps": (own, 4),
        "other widths": (batch_of(rank, width=40 + rank), 2),
        "a step begins within a group": (own, 32),
        "fewer groups here": (own[: len(own.mask) - ANSWERS * rank], 1),
        "none here": (own[: len(own.mask) * (rank > 0)], 1),
        "unequal groups": (own[1:], 1),
        "a group divided": (replace(own, group=own.group.roll(1)), 1),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    found = {name: balanced(batch, updates) for name, (batch, updates) in cases(rank).items()}
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
