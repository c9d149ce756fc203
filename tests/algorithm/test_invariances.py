"""How a step is cut into micro-batches and ranks, padded and ordered does not change its gradient.

Run as a script, this file is one rank of several.
"""

import subprocess
import sys
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from isentropic.policy.logprobs import entropy, sensitivity
from isentropic.tensors import gather, masked_mean, top_fraction, totals
from isentropic.types import ScoredBatch, TokenStats, Vitals

V, S = 7, 6
FORCE = ["algorithm.control.target=10", "algorithm.credit.stare.top=0.2", "algorithm.credit.stare.boost=3"]
METHODS = {
    "grpo": ["algorithm=grpo"],
    "dapo": ["algorithm=dapo"],
    "dr_grpo": ["algorithm=dr_grpo", "algorithm.aggregation.length=6"],
    "stare": ["algorithm=stare", *FORCE],
    "stare_adaptive": ["algorithm=stare_adaptive", *FORCE],
    "everything": [
        "algorithm=stare_c2",
        *FORCE,
        "algorithm/credit=[truncated_importance,stare]",
        "algorithm/penalty=[entropy_bonus]",
    ],
}


def rollouts(seed=0, rewards=((1, 0, 0, 0), (1, 1, 0, 0.5), (0, 1, 1, 1), (0, 0, 1, 1)), lengths=(1, S)):
    """Four groups of four answers by a policy of bigrams that has moved since, with garbage in the padding."""
    draw = torch.Generator().manual_seed(seed)
    reward = torch.tensor(rewards, dtype=torch.float32).flatten()
    rows = len(reward)
    tokens = torch.randint(V, (rows, S), generator=draw)
    mask = torch.arange(S) < torch.randint(lengths[0], lengths[1] + 1, (rows, 1), generator=draw)
    group = torch.arange(rows) // 4
    start = torch.randn(V, V, generator=draw)
    policy = start + torch.randn(V, V, generator=draw) * 0.3
    old = think(start, tokens)
    sampler_logp = old.logp + torch.randn(rows, S, generator=draw) * 0.5
    filled = [x.masked_fill(~mask, torch.nan) for x in (sampler_logp, old.logp, old.entropy, old.sensitivity)]
    return policy, ScoredBatch(tokens, mask, group, reward, reward > 0, group < 0, *filled, old.logp)


def think(policy, tokens):
    logits = policy[torch.nn.functional.pad(tokens, (1, -1))].log_softmax(-1)
    logp, h = logits.gather(-1, tokens[..., None])[..., 0], entropy(logits.flatten(0, 1)).view_as(tokens)
    return TokenStats(logp, h, sensitivity(logits.flatten(0, 1), logp.flatten(), h.flatten()).view_as(tokens))


def step(algorithm, policy, batch, size=100):
    """One optimizer step in micro-batches of `size` rows: (gradient, metrics), the mean over ranks."""
    algorithm, policy = deepcopy(algorithm), policy.clone().requires_grad_()
    drive = algorithm.control.update(Vitals(masked_mean(batch.old_entropy, batch.mask).item(), 0.0))
    credit, metrics = algorithm.assign(algorithm.advantage(batch), think(policy, batch.tokens), batch, drive)
    counts = totals(credit.mask)
    for start in range(0, len(batch.reward), size):
        rows = slice(start, start + size)
        loss, more = algorithm.loss(think(policy, batch.tokens[rows]), batch[rows], credit[rows], drive, counts)
        loss.backward()
        metrics = metrics | {name: metrics.get(name, 0) + value for name, value in more.items()}
    values = torch.cat([policy.grad.flatten(), torch.stack([torch.as_tensor(v).float() for v in metrics.values()])])
    if dist.is_initialized():
        dist.all_reduce(values)
        values /= dist.get_world_size()
    return values


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)


@pytest.fixture(params=METHODS)
def algorithm(request, build):
    return build(*METHODS[request.param])


@pytest.mark.parametrize("size", [1, 3, 5, 8])
def test_micro_batches_do_not_matter(algorithm, size):
    policy, batch = rollouts()
    expected = step(algorithm, policy, batch)
    assert expected[: V * V].abs().max() > 1e-3
    close(step(algorithm, policy, batch, size), expected)


@pytest.mark.parametrize("extra", [1, 9])
@pytest.mark.parametrize("garbage", [-30.0, torch.inf, torch.nan])
def test_padding_does_not_matter(algorithm, extra, garbage):
    policy, batch = rollouts()
    rows = len(batch.reward)
    fill = {torch.float32: garbage, torch.bool: False, torch.int64: 3}
    wider = {
        f.name: torch.cat([x, torch.full((rows, extra), fill[x.dtype], dtype=x.dtype)], 1)
        for f in fields(batch)
        if (x := getattr(batch, f.name)).ndim == 2
    }
    close(step(algorithm, policy, replace(batch, **wider)), step(algorithm, policy, batch))


def test_garbage_under_the_gradient_does_not_matter(algorithm):
    _, batch = rollouts()
    logp = torch.zeros_like(batch.old_logp).masked_fill(~batch.mask, -torch.inf).requires_grad_()
    now = TokenStats(logp, *[torch.ones_like(logp).masked_fill(~batch.mask, torch.nan)] * 2)
    drive = algorithm.control.update(Vitals(1.0, 0.0))
    credit, _ = algorithm.assign(algorithm.advantage(batch), now, batch, drive)
    algorithm.loss(now, batch, credit, drive, totals(credit.mask))[0].backward()
    assert logp.grad.isfinite().all()
    assert (logp.grad[~batch.mask] == 0).all()


def test_order_of_rows_and_groups_does_not_matter(algorithm):
    policy, batch = rollouts()
    expected = step(algorithm, policy, batch)
    for order in torch.randperm(16, generator=torch.Generator().manual_seed(1)), torch.arange(16).roll(4):
        shuffled = batch[order]
        close(step(algorithm, policy, replace(shuffled, group=7 - shuffled.group)), expected)


@pytest.mark.parametrize("reward", [1.0, 0.0, 0.7])
@pytest.mark.parametrize("method", ["grpo", "dapo", "dr_grpo", "stare", "stare_adaptive"])
def test_a_group_without_spread_only_adds_to_the_denominator(build, method, reward):
    policy, batch = rollouts(rewards=((1, 0, 0, 0), (1, 1, 0, 0.5), (0, 1, 1, 1), (reward,) * 4))
    algorithm = build(*METHODS[method])
    of = "tokens" if method in ("dapo", "stare", "stare_adaptive") else "sequences"
    gradients = [
        step(algorithm, policy, part)[: V * V] * getattr(totals(part.mask), of) for part in (batch, batch[:12])
    ]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=0)


def uneven(batch):
    """The last group's answers take no part, as when all were truncated: its rank has no token."""
    return replace(batch, mask=batch.mask & (batch.group != 3)[:, None])


def test_ranks_do_not_matter(build, tmp_path):
    algorithms = {name: build(*overrides) for name, overrides in METHODS.items()}
    torch.save(algorithms, tmp_path / "algorithms.pt")
    ranks = [subprocess.Popen([sys.executable, __file__, tmp_path, str(rank)]) for rank in range(4)]
    try:
        assert [rank.wait(timeout=300) for rank in ranks] == [0, 0, 0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    policy, batch = rollouts()
    for world in 2, 4:
        found = torch.load(tmp_path / f"{world}.pt")
        for name, algorithm in algorithms.items():
            close(found[name], step(algorithm, policy, batch, 5))
            close(found[f"{name}, uneven"], step(algorithm, policy, uneven(batch), 5))
        for part in batch, uneven(batch):
            x = torch.where(part.mask, part.reward[:, None], torch.nan) + torch.arange(S)
            assert torch.equal(found["top"].pop(0), top_fraction(x, part.mask, 0.3))
            assert torch.equal(found["gather"].pop(0), x[part.mask])


def on_one_rank(folder, rank, world):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store{world}", rank=rank, world_size=world)
    policy, batch = rollouts()
    groups = {2: [(0, 1, 2), (3,)], 4: [(0,), (1,), (2,), (3,)]}[world][rank]
    mine = torch.isin(batch.group, torch.tensor(groups))
    found = {"top": [], "gather": []}
    for name, algorithm in torch.load(folder / "algorithms.pt", weights_only=False).items():
        found[name] = step(algorithm, policy, batch[mine], 3)
        found[f"{name}, uneven"] = step(algorithm, policy, uneven(batch)[mine], 3)
    for part in batch[mine], uneven(batch)[mine]:
        x = torch.where(part.mask, part.reward[:, None], torch.nan) + torch.arange(S)
        top = top_fraction(x, part.mask, 0.3).float().flatten()
        found["top"].append(gather(top).view(-1, S).bool())
        found["gather"].append(gather(x[part.mask]))
    if rank == 0:
        torch.save(found, folder / f"{world}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    on_one_rank(folder, rank, 4)
    if rank < 2:
        on_one_rank(folder, rank, 2)
