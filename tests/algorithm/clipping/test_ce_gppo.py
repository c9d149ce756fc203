from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.clipping.ce_gppo import CeGppo

NO_DUAL = "algorithm.clipping.ceiling=inf"
NO_SHARE = [NO_DUAL, "algorithm.clipping.keep_low=0", "algorithm.clipping.keep_high=0"]


@pytest.mark.golden
def test_the_papers_loss(build, charge, paper):
    assert charge(build("algorithm=ce_gppo", NO_DUAL), *paper)[0] == pytest.approx(0.581267, abs=2e-6)


@pytest.mark.golden
def test_the_authors_dual_clip_stops_bad_answers_above_ten(build, charge, paper):
    loss, grad, metrics, _ = charge(build("algorithm=ce_gppo"), *paper)
    assert loss == pytest.approx(0.581267 - 0.866024 * 2.5 / 14, abs=2e-6)  # one ratio is 12.5
    assert grad[1, 3] == 0 and charge(build("algorithm=ce_gppo", NO_DUAL), *paper)[1][1, 3] > 0
    assert metrics["clipping/clipped_ceiling"] == pytest.approx(1 / 14)


@pytest.mark.golden
def test_the_loss_of_a_ratio_far_above_ten_is_bounded_as_that_of_dapo(build, charge, paper):
    batch, now = paper
    far = replace(now, logp=batch.old_logp.clone())
    far.logp[1, 3] += 11  # a ratio of 60,000 in a bad answer
    found, dapo = (charge(build(f"algorithm={name}"), batch, far)[0] for name in ("ce_gppo", "dapo"))
    assert found == pytest.approx(dapo) and found < 1


@pytest.mark.golden
def test_clipped_tokens_learn_as_at_a_share_of_their_limit(build, charge, paper):
    batch, now = paper
    _, grad, metrics, credit = charge(build("algorithm=ce_gppo", NO_DUAL), batch, now)
    weight = (now.logp - batch.old_logp).exp()
    weight[1, 0] = 0.75 * 0.8  # the ratio is 0.714
    weight[0, 1] = weight[0, 2] = 1.2  # 1.25 and 1.4
    torch.testing.assert_close(grad, torch.where(batch.mask, -credit.advantages * weight / 14, 0))
    sides = [metrics[f"clipping/clipped_{side}"] for side in ("low", "high")]
    assert sides == [pytest.approx(1 / 14), pytest.approx(2 / 14)]


@pytest.mark.identity
def test_without_shares_the_gradient_is_that_of_clipping(build, charge, paper):
    clipped = build("algorithm=dapo", "algorithm.clipping.high=0.2", "algorithm.clipping.ceiling=inf")
    torch.testing.assert_close(
        charge(build("algorithm=ce_gppo", *NO_SHARE), *paper)[1], charge(clipped, *paper)[1], atol=1e-12, rtol=0
    )


@pytest.mark.identity
def test_whole_shares_have_the_loss_of_clipping(build, charge, paper):
    whole = build("algorithm=ce_gppo", NO_DUAL, "algorithm.clipping.keep_low=1")
    clipped = build("algorithm=dapo", "algorithm.clipping.high=0.2", "algorithm.clipping.ceiling=inf")
    assert charge(whole, *paper)[0] == pytest.approx(charge(clipped, *paper)[0], abs=1e-12)


@pytest.mark.parametrize(
    "wrong, named", [((1.1, 0.2, 1, 1), "low="), ((0.2, -1, 1, 1), "high="), ((0.2, 0.2, -1, 1), "keep_low=-1")]
)
def test_settings_that_make_no_sense_are_refused(wrong, named):
    with pytest.raises(ValueError, match=f"clipping.{named}"):
        CeGppo(*wrong, 10)
