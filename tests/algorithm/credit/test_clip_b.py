from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.clip_b import ClipB
from isentropic.reductions import masked_mean, masked_std

NO_DUAL = "algorithm.clipping.ceiling=inf"


def dropped(build, charge, paper, mu):
    loss, _, _, credit = charge(build("algorithm=clip_b", NO_DUAL, f"algorithm.credit.clip_b.mu={mu}"), *paper)
    return loss, (paper[0].mask & ~credit.mask).nonzero().tolist()


@pytest.mark.golden
def test_mean_and_deviation_worked_out_by_hand(paper):
    batch, now = paper
    rise = now.logp.exp() * (now.logp + now.entropy)
    assert masked_mean(rise, batch.mask).item() == pytest.approx(0.104481, abs=2e-6)
    assert masked_std(rise, batch.mask, unbiased=False).item() == pytest.approx(0.133088, abs=2e-6)
    assert ((rise[1, 1] - 0.104481) / 0.133088).item() == pytest.approx(-1.196840, abs=1e-5)


@pytest.mark.golden
def test_the_blamed_token_that_lowers_the_entropy_most_is_left_out(build, charge, paper):
    # Of 14 costs that add up to 14 * 0.593639, the token's own is 1.2 * 0.866024.
    assert dropped(build, charge, paper, 1.19) == (
        pytest.approx((14 * 0.593639 - 1.2 * 0.866024) / 13, abs=2e-6),
        [[1, 1]],
    )
    assert dropped(build, charge, paper, 1.20) == (pytest.approx(0.593639, abs=2e-6), [])
    # A good answer's tokens lie lower than the next blamed one, at z = -0.8516, and stay.
    assert dropped(build, charge, paper, 0.85)[1] == [[1, 1], [1, 3]]


@pytest.mark.identity
def test_at_the_papers_distance_the_fixture_is_grpo_over_tokens(build, charge, paper):
    base = charge(build("algorithm=grpo", "algorithm/aggregation=token_mean"), *paper)
    found = charge(build("algorithm=clip_b"), *paper)
    assert found[0] == base[0]
    assert torch.equal(found[1], base[1])


@pytest.mark.degenerate
def test_of_tokens_that_are_all_alike_none_is_left_out(build, charge, paper):
    batch, now = paper
    single = now.logp.float()
    even = replace(now, logp=torch.full_like(single, -0.7), entropy=torch.full_like(single, 0.3))
    assert dropped(build, charge, (batch, even), 0)[1] == []


@pytest.mark.degenerate
def test_an_unknown_entropy_neither_counts_nor_is_left_out(build, charge, paper):
    batch, now = paper
    entropy = now.entropy.clone()
    entropy[0, 0] = torch.nan
    assert dropped(build, charge, (batch, replace(now, entropy=entropy)), 1.1)[1] == [[1, 1]]


def test_a_negative_distance_is_refused():
    with pytest.raises(ValueError, match=r"credit\.clip_b\.mu=-1"):
        ClipB(-1)
