from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.clipping.regions import Regions
from isentropic.batch import Drive

# By the policy before the update, as the four answers are worked out: surprisal above the entropy or not
REGIONS = {
    "e1": [(0, 0), (0, 2), (0, 3), (0, 4), (2, 1)],
    "e2": [(0, 1), (2, 0), (2, 2)],
    "e3": [(1, 0), (1, 2), (3, 0), (3, 1)],
    "e4": [(1, 1), (1, 3)],
}
TIGHT = ["algorithm.clipping.low=0.02", "algorithm.clipping.high=0.02"]


@pytest.mark.golden
@pytest.mark.parametrize("region", REGIONS)
def test_only_tokens_of_the_region_are_clipped(build, charge, paper, region):
    batch, now = paper
    gradient = charge(build(f"algorithm=flexible_{region}", *TIGHT), batch, now)[1]
    ratio = (now.logp - batch.old_logp).exp()
    stopped = {(r, c) for r, c in ((gradient == 0) & batch.mask).nonzero().tolist()}
    good = region in ("e1", "e2")
    assert stopped == {spot for spot in REGIONS[region] if (ratio[spot] > 1.02 if good else ratio[spot] < 0.98)}
    assert stopped or region == "e4"  # both of its tokens have become more likely


@pytest.mark.golden
@pytest.mark.parametrize("region", REGIONS)
def test_losses_of_the_regions_by_hand(build, charge, paper, region):
    found = charge(build(f"algorithm=flexible_{region}"), *paper)[0]
    batch, now = paper
    ratio = (now.logp - batch.old_logp).exp()
    advantages = build("algorithm=dapo").advantage(batch)
    for spot in REGIONS[region]:
        ratio[spot] = ratio[spot].clamp(max=1.2) if region in ("e1", "e2") else ratio[spot].clamp(min=0.8)
    assert found == pytest.approx(-(ratio * advantages)[batch.mask].sum().item() / 14)


@pytest.mark.identity
def test_all_four_are_the_clipping_of_ppo(build, charge, paper):
    four = build("algorithm=flexible_e1", *[f"algorithm.clipping.{name}=true" for name in REGIONS])
    fixed = build("algorithm=dapo", "algorithm.clipping.high=0.2", "algorithm.clipping.ceiling=inf")
    found, expected = charge(four, *paper), charge(fixed, *paper)
    assert found[0] == pytest.approx(expected[0], abs=1e-12)
    torch.testing.assert_close(found[1], expected[1])


@pytest.mark.identity
def test_with_one_update_nothing_is_clipped(build, charge, paper):
    batch, now = paper
    metrics = charge(build("algorithm=flexible_e1"), batch, replace(now, logp=batch.old_logp))[2]
    assert [metrics[f"clipping/clipped_{side}"] for side in ("low", "high", "ceiling")] == [0, 0, 0]


def test_the_entropy_is_read_before_the_update(build):
    assert build("algorithm=flexible_e1").reads_policy and not build("algorithm=dapo").reads_policy


@pytest.mark.degenerate
def test_a_token_of_unknown_entropy_is_in_no_region(paper):
    batch, now = paper
    blind = replace(batch, old_entropy=batch.old_entropy * torch.nan)
    bounds = Regions(0.2, 0.2, True, True, True, True)(now, blind, Drive())
    assert (bounds.low == 0).all() and bounds.high.isinf().all()


@pytest.mark.parametrize(
    "wrong, named", [((1.5, 0.2, 1, 1, 1, 1), "low="), ((0.2, 0.2, False, False, False, False), "all false")]
)
def test_settings_that_make_no_sense_are_refused(wrong, named):
    with pytest.raises(ValueError, match=rf"clipping\..*{named}"):
        Regions(*wrong[:2], *map(bool, wrong[2:]))
