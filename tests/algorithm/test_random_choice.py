from dataclasses import fields, replace

import pytest
import torch

from isentropic.algorithm.random_choice import count, lots, pick, pick_largest
from isentropic.batch import ScoredBatch


def answers(rows=64, columns=128):
    torch.manual_seed(0)
    tokens, x = torch.randint(9, (rows, columns)), torch.randn(rows, columns)
    mask = torch.arange(columns) < torch.randint(1, columns + 1, (rows, 1))
    row = torch.zeros(rows, dtype=torch.long)
    return ScoredBatch(tokens, mask, row, x[:, 0], row > 0, row > 0, x, x, x, x, x)


def everywhere(batch):
    return torch.zeros(batch.mask.shape, dtype=torch.double).masked_scatter(batch.mask, lots(batch, batch.mask))


@pytest.mark.invariance
def test_lots_depend_on_a_tokens_own_row_only():
    batch = answers()
    drawn = everywhere(batch)
    order = torch.randperm(64)
    assert torch.equal(everywhere(batch[order]), drawn[order])
    assert torch.equal(everywhere(batch[5:9]), drawn[5:9])
    some = batch.mask & (batch.tokens > 4)
    assert torch.equal(lots(batch, some), drawn[some])
    for side in ((3, 2), (0, 7)):  # padding before and behind, with garbage in it
        wide = {
            f.name: torch.nn.functional.pad(x, side, value=0 if x.dtype != torch.float32 else torch.nan)
            for f in fields(batch)
            if (x := getattr(batch, f.name)).ndim == 2
        }
        wider = replace(batch, **wide)
        assert torch.equal(lots(wider, wider.mask), drawn[batch.mask])


def test_lots_are_even_and_do_not_repeat():
    batch = answers()
    drawn = lots(batch, batch.mask)
    assert drawn.min() >= 0 and drawn.max() < 1
    assert len(drawn.unique()) == len(drawn) > 3000
    counts = torch.histc(drawn.float(), 10, 0, 1)
    assert (counts / counts.mean() - 1).abs().max() < 0.15


def test_twins_draw_alike_and_an_update_draws_anew():
    batch = answers(4, 8)
    twins = batch[torch.tensor([0, 0])]
    assert torch.equal(*everywhere(twins))
    moved = replace(batch, old_logp=batch.old_logp * 1.0001)
    assert (lots(moved, batch.mask) != lots(batch, batch.mask)).all()


def test_so_many_are_picked_or_all_there_are():
    batch = answers()
    candidates = batch.mask & (batch.tokens > 4)
    for number in (0, 1, 7, 100):
        picked = pick(candidates, batch, number)
        assert picked.sum() == number and not (picked & ~candidates).any()
    assert torch.equal(pick(candidates, batch, 10**6), candidates)
    assert not pick(candidates & False, batch, 3).any() and count(candidates & False) == 0


def test_of_the_largest_so_many_are_picked_whatever_is_equal():
    batch = answers()
    values = batch.tokens.double()
    n = int((values[batch.mask] == 8).sum())
    for number in (1, n - 1, n, n + 5):
        picked = pick_largest(values, batch.mask, batch, number)
        assert picked.sum() == number
        assert sorted(values[picked].tolist()) == sorted(values[batch.mask].tolist())[-number:]
