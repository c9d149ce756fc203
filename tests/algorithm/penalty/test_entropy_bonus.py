import pytest
import torch

from isentropic.algorithm.penalty.entropy_bonus import EntropyBonus
from isentropic.batch import Credit, Drive, TokenStats


@pytest.mark.parametrize("drive, sign", [(Drive(up=1), -1), (Drive(down=1), 1), (Drive(1, 1), 0), (Drive(up=3), -3)])
def test_entropy_is_paid_for_in_proportion_to_the_drive(paper, drive, sign):
    batch, now = paper
    cost = EntropyBonus(weight=0.01)(Credit.initial(torch.zeros_like(now.logp), batch.mask), now, batch, drive)
    torch.testing.assert_close(cost, torch.where(batch.mask, sign * 0.01 * now.entropy, 0))


def test_its_gradient_reaches_the_entropy_of_chosen_tokens_only(paper):
    batch, now = paper
    entropy = now.entropy.clone().requires_grad_()
    credit = Credit.initial(torch.zeros_like(now.logp), batch.mask)
    EntropyBonus(weight=0.01)(credit, TokenStats(now.logp, entropy, entropy), batch, Drive(up=1)).sum().backward()
    torch.testing.assert_close(entropy.grad, -0.01 * batch.mask.double())


@pytest.mark.golden
def test_the_recipe_gives_the_loss_worked_out_elsewhere(build, charge, paper):
    assert charge(build("algorithm=entropy_bonus", "algorithm.clipping.ceiling=inf"), *paper)[0] == pytest.approx(
        0.584526, abs=2e-6
    )


@pytest.mark.identity
def test_a_weight_or_drive_of_zero_is_dapo(build, charge, paper):
    plain = charge(build("algorithm=dapo"), *paper)[0]
    for off in ("algorithm.penalty.entropy_bonus.weight=0", "algorithm.control.up=0"):
        assert charge(build("algorithm=entropy_bonus", off), *paper)[0] == plain


@pytest.mark.identity
def test_behind_a_gate_it_is_the_plain_bonus_under_the_target_and_dapo_above_it(build, charge, paper):
    under, above = (build("algorithm=entropy_bonus_gated", f"algorithm.control.target={t}") for t in (9, 1e-9))
    assert charge(under, *paper)[0] == charge(build("algorithm=entropy_bonus"), *paper)[0]
    assert charge(above, *paper)[0] == charge(build("algorithm=dapo"), *paper)[0] != charge(under, *paper)[0]
