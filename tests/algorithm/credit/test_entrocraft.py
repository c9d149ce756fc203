from dataclasses import replace

import pytest
import torch

from isentropic.batch import Credit, Drive

FIXED = ["algorithm.control.upper_end=0.7", "algorithm.control.lower_end=0.6"]


@pytest.fixture
def signed(paper):
    """Rewards of 1 and -1, as outcome curation gives."""
    batch, now = paper
    return replace(batch, reward=torch.where(batch.correct, 1.0, -1.0).double()), now


def held(batch, entropy):
    return replace(batch, old_entropy=torch.full_like(batch.old_entropy, entropy))


@pytest.mark.golden
@pytest.mark.parametrize("entropy, right, wrong", [(0.8, 1, 0), (0.65, 0.866024, -0.866024), (0.5, 0, -1)])
def test_over_under_and_within_the_band(build, charge, signed, entropy, right, wrong):
    batch, now = signed
    _, gradient, _, credit = charge(build("algorithm=entrocraft"), held(batch, entropy), now)
    expected = torch.where(batch.correct, right, wrong).double()[:, None].expand_as(now.logp)
    torch.testing.assert_close(credit.advantages[batch.mask], expected[batch.mask], atol=2e-6, rtol=0)
    assert torch.equal(credit.mask, batch.mask)  # the divisor stays
    assert (gradient[batch.correct] != 0).any() == (right != 0)
    assert (gradient[~batch.correct] != 0).any() == (wrong != 0)


@pytest.mark.golden
def test_the_loss_above_the_band_by_hand(build, charge, signed):
    batch, now = signed
    # of good answers: min(ratio, 1.28), on eight of fourteen tokens
    ratios = 1.022222 + 1.25 + 1.28 + 0.666667 + 1 + 1.111111 + 1 + 0.833333
    found = charge(build("algorithm=entrocraft"), held(batch, 0.8), now)[0]
    assert found == pytest.approx(-ratios / 14, abs=2e-6)


@pytest.mark.identity
def test_within_the_band_it_is_dapo(build, charge, signed):
    batch, now = signed
    inside = held(batch, 0.65)
    found, expected = (charge(build(f"algorithm={name}"), inside, now) for name in ("entrocraft", "dapo"))
    assert found[0] == expected[0] and torch.equal(found[1], expected[1])


def test_groups_without_contrast_teach_outside_of_the_band(build, charge, signed):
    batch, now = signed
    right = replace(held(batch, 0.8), reward=torch.ones(4, dtype=torch.float64))
    assert (charge(build("algorithm=entrocraft"), right, now)[1][right.mask] != 0).any()
    assert charge(build("algorithm=entrocraft"), replace(right, old_entropy=right.old_entropy - 0.3), now)[0] == 0


@pytest.mark.degenerate
def test_under_the_band_rewards_of_zero_and_one_leave_no_gradient(build, charge, paper):
    batch, now = paper
    loss, gradient, _, _ = charge(build("algorithm=entrocraft"), held(batch, 0.5), now)
    assert loss == 0 and (gradient == 0).all()


@pytest.mark.invariance
def test_what_was_dropped_before_stays_so(build, signed):
    batch, now = signed
    rule = build("algorithm=entrocraft").credit["entrocraft"]
    credit = Credit.initial(now.logp * 0 + 3, batch.mask).drop(now.logp < -1)
    found = rule(credit, now, batch, Drive(down=1))
    assert torch.equal(found.mask, credit.mask)
    assert (found.advantages[~credit.mask] == 3).all()
