from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.kl_cov import KlCov
from isentropic.batch import Credit, Drive

FIFTH = "algorithm.credit.kl_cov.share=0.2"


@pytest.mark.golden
def test_loss_and_tokens_worked_out_elsewhere(build, charge, paper):
    loss, grad, metrics, credit = charge(build("algorithm=kl_cov", FIFTH), *paper)
    assert loss == pytest.approx(0.753281, abs=2e-6)
    assert credit.kl_weight.nonzero().tolist() == [[1, 3], [2, 1]]
    assert metrics["credit/kl_cov"] == pytest.approx(2 / 14)
    plain = charge(build("algorithm=kl_cov", FIFTH, "algorithm/penalty=[]"), *paper)
    difference = (grad - plain[1]) * 14
    assert difference[1, 3].item() == pytest.approx(1)  # up, and so pushed down
    assert difference.abs().sum().item() == pytest.approx(1)  # (2, 1) has not moved


@pytest.mark.golden
@pytest.mark.parametrize("share, number", [(0.0002, 1), (0.14, 1), (0.2, 2), (0.22, 3), (1.0, 7)])
def test_the_number_is_a_floor_and_at_least_one(build, charge, paper, share, number):
    credit = charge(build("algorithm=kl_cov", f"algorithm.credit.kl_cov.share={share}"), *paper)[3]
    assert (credit.kl_weight > 0).sum() == number  # seven have a covariance above 0


@pytest.mark.degenerate
@pytest.mark.parametrize("reward", [0.0, 0.7, 1.0])
def test_answers_of_equal_worth_tie_nothing(build, charge, paper, reward):
    batch, now = paper
    loss, grad, _, credit = charge(build("algorithm=kl_cov"), replace(batch, reward=batch.reward * 0 + reward), now)
    assert loss == 0 and (grad == 0).all() and (credit.kl_weight == 0).all()


@pytest.mark.degenerate
def test_among_equals_lots_decide_and_the_number_stays(paper):
    batch, now = paper
    certain = replace(now, logp=torch.where(batch.reward > 0, 0.0, -1.0)[:, None] * batch.mask)  # p 1 or 1 / e
    credit = Credit.initial(batch.reward[:, None] * batch.mask, batch.mask)
    for share, number in ((0.1, 1), (0.3, 4), (0.9, 12)):
        assert (KlCov(share, 1.0)(credit, certain, batch, Drive()).kl_weight > 0).sum() == number


@pytest.mark.degenerate
def test_no_token_at_all_is_no_tie(paper):
    batch, now = paper
    nothing = Credit.initial(now.logp * 0, batch.mask & False)
    assert (KlCov(0.5, 1.0)(nothing, now, batch, Drive()).kl_weight == 0).all()


@pytest.mark.parametrize("share, weight, named", [(0, 1, "share"), (1.1, 1, "share"), (0.1, 0, "weight")])
def test_settings_that_make_no_sense_are_refused(share, weight, named):
    with pytest.raises(ValueError, match=rf"credit\.kl_cov\.{named}="):
        KlCov(share, weight)


@pytest.mark.degenerate
@pytest.mark.parametrize("spot", [(0, 0), (1, 3), (3, 1)])
@pytest.mark.parametrize("recipe", ["kl_cov", "clip_cov"])
def test_a_token_that_the_policy_has_ruled_out_is_no_number_nowhere(build, charge, paper, recipe, spot):
    batch, now = paper
    logp = now.logp.clone()
    logp[spot] = -torch.inf
    share = f"algorithm.credit.{recipe}.share=0.3"
    loss, gradient, metrics, credit = charge(build(f"algorithm={recipe}", share), batch, replace(now, logp=logp))
    assert torch.tensor([loss, *metrics.values()]).isfinite().all()
    assert gradient.isfinite().all() and gradient[spot] == 0
    assert credit.kl_weight[spot] == 0 and (recipe == "clip_cov" or (credit.kl_weight > 0).sum() == 4)
