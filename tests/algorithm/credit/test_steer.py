from dataclasses import replace
from math import log

import pytest
import torch

from isentropic.algorithm.credit.steer import Steer


def weights(build, charge, paper, *overrides):
    algorithm = build("algorithm=steer", *overrides)
    credit = charge(algorithm, *paper)[3]
    advantages = algorithm.advantage(paper[0])
    return torch.where(advantages == 0, 1, credit.advantages / advantages)


@pytest.mark.golden
def test_two_tokens_worked_out_by_hand(build, charge, paper):
    rare, largest = [0.866024 * r * (1 - 0.0015) * abs(log(0.0015) + h) for r, h in ((1.25, 0.05), (12.5, 0.6))]
    found = weights(build, charge, paper)
    assert found[1, 3].item() == pytest.approx(0.8)
    assert found[0, 1].item() == pytest.approx(0.8 ** (rare / largest), abs=1e-6)
    assert found[0, 1].item() == pytest.approx(0.975901, abs=2e-6)
    assert found.min() == found[1, 3]
    assert found.max() <= 1


@pytest.mark.golden
def test_the_definition_of_the_paper(build, charge, paper):
    batch, now = paper
    p, old = now.logp.exp(), batch.old_logp.exp()
    omega = build("algorithm=dapo").advantage(batch) / old * p * (1 - p) * (now.logp + now.entropy)
    k = -log(0.8) / max(omega[batch.mask].abs().max().item(), 0.02)
    expected = torch.where(batch.mask, (-k * omega.abs()).exp().clamp(0.8, 1), 1)
    torch.testing.assert_close(weights(build, charge, paper), expected)


@pytest.mark.identity
def test_with_equal_weights_it_is_dapo(build, charge, paper):
    base = charge(build("algorithm=dapo"), *paper)
    found = charge(build("algorithm=steer", "algorithm.credit.steer.least=1"), *paper)
    assert found[0] == base[0]
    assert torch.equal(found[1], base[1])


def test_where_little_moves_weights_tend_to_one(build, charge, paper):
    found = weights(build, charge, paper, "algorithm.credit.steer.floor=1e6")
    assert found.min() > 1 - 1e-4


def test_within_micro_batches_each_has_its_own_largest_move(build, charge, paper):
    algorithm = build("algorithm=steer", "algorithm.scope=micro_batch")
    credit = charge(algorithm, *paper, [0, 1], [2, 3])[3]
    found = (credit.advantages / algorithm.advantage(paper[0])).nan_to_num(1)
    assert found[:2].min().item() == pytest.approx(0.8)
    assert found[2:].min().item() == pytest.approx(0.8)


@pytest.mark.degenerate
def test_tokens_that_are_impossible_or_unknown_keep_their_weight(build, charge, paper):
    batch, now = paper
    logp, entropy = now.logp.clone(), now.entropy.clone()
    logp[0, 0], entropy[2, 0] = -torch.inf, torch.nan
    found = weights(build, charge, (batch, replace(now, logp=logp, entropy=entropy)))
    assert (found[0, 0], found[2, 0]) == (1, 1)
    assert found[1, 3].item() == pytest.approx(0.8)


@pytest.mark.parametrize("least, floor, named", [(0, 0.02, "least=0"), (1.1, 0.02, "least=1.1"), (0.8, 0, "floor=0")])
def test_settings_that_make_no_sense_are_refused(least, floor, named):
    with pytest.raises(ValueError, match=f"credit.steer.{named}"):
        Steer(least, floor)
