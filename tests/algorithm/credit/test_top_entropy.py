from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.top_entropy import TopEntropy
from isentropic.batch import Credit, Drive

NO_DUAL = "algorithm.clipping.ceiling=inf"


@pytest.mark.golden
@pytest.mark.parametrize("dual_clip", [[], [NO_DUAL]])
def test_worked_out_by_hand(build, charge, paper, dual_clip):
    loss, gradient, _, credit = charge(build("algorithm=top_entropy", *dual_clip), *paper)
    assert credit.mask.nonzero().tolist() == [[1, 1], [2, 0], [2, 2]]  # entropies of padding are larger
    assert loss == pytest.approx(-0.214902, abs=2e-6)
    expected = torch.zeros(4, 5, dtype=torch.float64)
    expected[1, 1], expected[2, 0], expected[2, 2] = 0.346410, -0.320750, -0.240562
    torch.testing.assert_close(gradient, expected, atol=2e-6, rtol=0)


@pytest.mark.identity
def test_with_all_tokens_it_is_dapo(build, charge, paper):
    base = charge(build("algorithm=dapo"), *paper)
    found = charge(build("algorithm=top_entropy", "algorithm.credit.top_entropy.top=1"), *paper)
    assert found[0] == base[0]
    assert torch.equal(found[1], base[1])


def test_within_micro_batches_each_keeps_its_own(build, charge, paper):
    algorithm = build("algorithm=top_entropy", "algorithm.scope=micro_batch")
    _, _, _, credit = charge(algorithm, *paper, [0, 1], [2, 3])
    assert credit.mask.nonzero().tolist() == [[0, 3], [1, 1], [2, 2]]


def test_dropped_tokens_are_no_candidates(paper):
    batch, now = paper
    credit = Credit.initial(torch.ones_like(now.logp), batch.mask).drop(now.entropy == 2.5)
    kept = TopEntropy(0.1)(credit, now, batch, Drive()).mask
    assert kept.nonzero().tolist() == [[1, 1], [2, 0]]


@pytest.mark.degenerate
def test_equal_entropies_are_kept_together(build, charge, paper):
    batch, now = paper
    even = replace(now, entropy=torch.full_like(now.entropy, 0.3))
    assert torch.equal(charge(build("algorithm=top_entropy"), batch, even)[3].mask, batch.mask)


@pytest.mark.parametrize("top", [0, 1.5, -0.1])
def test_a_share_that_is_none_is_refused(top):
    with pytest.raises(ValueError, match=rf"credit\.top_entropy\.top={top}"):
        TopEntropy(top)


@pytest.mark.degenerate
@pytest.mark.parametrize("uncertain", [[(2, 2)], [(2, 2), (0, 3)], [(0, 0), (1, 1), (3, 0)]])
def test_where_nearly_all_are_certain_only_the_others_are_kept(build, charge, paper, uncertain):
    batch, now = paper
    entropy = now.entropy * 0
    for place, spot in enumerate(uncertain):
        entropy[spot] = 1.0 + place
    kept = charge(build("algorithm=top_entropy"), batch, replace(now, entropy=entropy))[3].mask
    assert [tuple(spot) for spot in kept.nonzero().tolist()] == sorted(uncertain)  # of 14 a fifth is 3
