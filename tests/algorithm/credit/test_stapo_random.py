import pytest
import torch

from isentropic.algorithm.credit.stapo_random import StapoRandom

RARE = {(0, 1), (2, 0), (2, 2)}
RECIPE = "algorithm=stapo_random"


def masked(charged, paper):
    return {(r, c) for r, c in (paper[0].mask & ~charged[3].mask).nonzero().tolist()}


@pytest.mark.golden
@pytest.mark.parametrize("q, number", [(0, 0), (0.2, 1), (0.5, 1), (0.75, 2), (1, 2)])
def test_so_many_of_the_rare_tokens_of_good_answers_are_left_out(build, charge, paper, q, number):
    found = masked(charge(build(RECIPE, f"algorithm.credit.stapo_random.q={q}"), *paper), paper)
    assert len(found) == number and found <= RARE


def test_the_lots_are_those_of_the_tokens_whatever_the_micro_batches_and_the_order(build, charge, paper):
    batch, now = paper
    algorithm = build(RECIPE)
    whole = masked(charge(algorithm, batch, now), paper)
    assert masked(charge(algorithm, batch, now, [3, 0], [2, 1]), paper) == whole
    order = torch.tensor([2, 3, 0, 1])
    shuffled = charge(algorithm, batch[order], now[order])[3]
    assert {(order[r].item(), c) for r, c in (batch.mask[order] & ~shuffled.mask).nonzero().tolist()} == whole


@pytest.mark.parametrize("values, named", [((0, 0.5), "probability=0"), ((0.1, -0.5), "q=-0.5")])
def test_settings_that_make_no_sense_are_refused(values, named):
    with pytest.raises(ValueError, match=rf"credit\.stapo_random\.{named}"):
        StapoRandom(*values)
