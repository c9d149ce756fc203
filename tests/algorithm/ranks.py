"""One rank of several, run by test_ranks.py as `ranks.py FOLDER RANK`: a world of 4, then one of 2."""

import math
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from bigrams import S, rollouts, step

from isentropic.distributed import alone, gather, largest
from isentropic.reductions import masked_max, masked_mean, masked_std, quantile, top_fraction, totals

GROUPS = {2: [(0, 1, 2), (3,)], 4: [(0,), (1,), (2,), (3,)]}
QUANTILES = [(q, how) for q in (0.0, 0.3, 0.5, 1.0) for how in ("linear", "lower", "higher", "nearest")]
FRACTIONS = 0.0, 0.1, 0.5, 1.0


def batches():
    """By kind: (policy, batch)."""
    policy, batch = rollouts()
    answer = torch.arange(len(batch.mask))[:, None]
    return {
        "mixed": (policy, batch),
        "uneven": (policy, replace(batch, mask=batch.mask & (batch.group != 3)[:, None])),
        "certain": rollouts(seed=2, certain=2),
        "all right": rollouts(rewards=((1,) * 4,) * 4),
        "one answer": (policy, replace(batch, mask=batch.mask & (answer == 1))),
        "no token": (policy, replace(batch, mask=batch.mask & False)),
    }


def values(batch):
    """Numbers of which some are equal, with NaN outside the mask, and the mask."""
    return torch.where(batch.mask, batch.reward[:, None], math.nan) + torch.arange(S), batch.mask


def rows_of(batch, world):
    return [torch.isin(batch.group, torch.tensor(groups)) for groups in GROUPS[world]]


def arithmetic(batch, mine):
    """What reductions.py says on a rank that has the rows `mine`."""
    x, mask = [table[mine] for table in values(batch)]
    counts = totals(mask)
    with suppress(KeyError), alone():
        own = masked_mean(x, mask)
        raise KeyError  # an error ends the solitude too
    return {
        "gathered": gather(x[mask]),
        "moments": torch.stack([masked_mean(x, mask), masked_std(x, mask, True), masked_std(x, mask, False)]),
        "exact": torch.stack([masked_max(x, mask), *[quantile(x, mask, q, how) for q, how in QUANTILES]]),
        "top": torch.stack([gather(top_fraction(x, mask, f).float().flatten()).view(-1, S).bool() for f in FRACTIONS]),
        "totals": torch.stack([counts.tokens, counts.sequences]) * dist.get_world_size(),
        "largest": largest(int(mask.sum())),
        "alone": gather(own[None]),
    }


def on_one_rank(folder, rank, world):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store{world}", rank=rank, world_size=world)
    algorithms = torch.load(folder / "algorithms.pt", weights_only=False)
    found = {}
    for kind, (policy, batch) in batches().items():
        mine = rows_of(batch, world)[rank]
        found[kind, "arithmetic"] = arithmetic(batch, mine)
        for name, algorithm in algorithms.items():
            found[kind, name] = step(algorithm, policy, batch[mine], 3)
    if rank == 0:
        torch.save(found, folder / f"{world}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    on_one_rank(folder, rank, 4)
    if rank < 2:
        on_one_rank(folder, rank, 2)
