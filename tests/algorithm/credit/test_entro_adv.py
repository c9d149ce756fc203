from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.algorithm.credit.entro_adv import EntroAdv
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats


@pytest.mark.golden
def test_worked_out_by_hand(build, charge, paper):
    loss, _, _, credit = charge(build("algorithm=entro_adv", "algorithm.clipping.ceiling=inf"), *paper)
    row = [0.966024, 0.886024, 1.266024, 1.299036, 1.066024]
    assert credit.advantages[0].tolist() == pytest.approx(row, abs=2e-6)
    assert loss == pytest.approx(0.076274, abs=2e-6)


def test_blame_shrinks_by_half_of_itself_at_most(build, charge, paper):
    _, _, _, credit = charge(build("algorithm=entro_adv"), *paper)
    assert credit.advantages[1, :4].tolist() == pytest.approx([-0.466024, -0.433012, -0.506024, -0.626024], abs=2e-6)
    assert (credit.advantages[1, 4:] == 0).all()


@pytest.mark.identity
def test_without_a_bonus_it_is_dapo(build, charge, paper):
    base = charge(build("algorithm=dapo"), *paper)
    found = charge(build("algorithm=entro_adv", "algorithm.credit.entro_adv.alpha=0"), *paper)
    assert found[0] == base[0]
    assert torch.equal(found[1], base[1])


@settings(deadline=None, max_examples=60)
@given(st.floats(-3, 3, width=32), st.floats(0, 20, width=32), st.floats(0, 5), st.floats(1.01, 9))
def test_no_advantage_changes_its_sign_nor_one_of_zero_its_value(advantage, entropy, alpha, kappa):
    advantages, mask = torch.tensor([[advantage]]), torch.ones(1, 1) > 0
    logp, row = torch.zeros(1, 1), torch.zeros(1)
    batch = ScoredBatch(mask.long(), mask, row.long(), row, row > 0, row > 0, *[logp] * 5)
    now = TokenStats(logp, torch.tensor([[entropy]]), logp)
    found = EntroAdv(alpha, kappa)(Credit.initial(advantages, mask), now, batch, Drive()).advantages
    assert torch.equal(found.sign(), advantages.sign())
    assert found >= advantages


@pytest.mark.degenerate
def test_an_unknown_entropy_gives_no_bonus(build, charge, paper):
    batch, now = paper
    _, gradient, _, credit = charge(build("algorithm=entro_adv"), batch, replace(now, entropy=now.entropy * torch.nan))
    assert torch.equal(credit.advantages, build("algorithm=entro_adv").advantage(batch))
    assert gradient.isfinite().all()


@pytest.mark.parametrize("alpha, kappa, named", [(-0.1, 2, "alpha=-0.1"), (0.4, 1, "kappa=1"), (0.4, 0.5, "kappa=0.5")])
def test_settings_that_make_no_sense_are_refused(alpha, kappa, named):
    with pytest.raises(ValueError, match=f"credit.entro_adv.{named}"):
        EntroAdv(alpha, kappa)
