import pytest
import torch

from isentropic.algorithm.aggregation.micro_token_mean import MicroTokenMean
from isentropic.algorithm.aggregation.token_mean import TokenMean
from isentropic.reductions import totals

COST = torch.tensor([[1.0, 1, 1, 1], [5, torch.nan, torch.inf, 9], [3, 3, 9, 9]])
MASK = torch.tensor([[True] * 4, [True, False, False, False], [True, True, False, False]])


def accumulated(*parts):
    counts = totals(MASK)
    return sum(MicroTokenMean()(COST[part], MASK[part], counts).item() for part in parts)


@pytest.mark.golden
def test_the_fixture_in_two_halves(build, charge, paper):
    verl = build("algorithm=dapo", "algorithm/aggregation=micro_token_mean")
    assert charge(verl, *paper, [0, 1], [2, 3])[0] == pytest.approx(0.303835, abs=2e-6)
    assert charge(build("algorithm=dapo"), *paper, [0, 1], [2, 3])[0] == pytest.approx(0.430950, abs=2e-6)


@pytest.mark.identity
def test_in_one_micro_batch_it_is_the_mean_over_tokens(build, charge, paper):
    verl = build("algorithm=dapo", "algorithm/aggregation=micro_token_mean")
    loss, gradient, _, _ = charge(build("algorithm=dapo"), *paper)
    assert charge(verl, *paper)[0] == pytest.approx(loss)
    torch.testing.assert_close(charge(verl, *paper)[1], gradient)
    assert accumulated([0, 1, 2]) == pytest.approx(TokenMean()(COST, MASK, totals(MASK)).item())


def test_a_micro_batch_counts_as_much_as_its_answers():
    assert accumulated([0, 1], [2]) == pytest.approx(2 / 3 * 9 / 5 + 1 / 3 * 3)
    assert accumulated([0], [1, 2]) == pytest.approx(1 / 3 * 1 + 2 / 3 * 11 / 3)


@pytest.mark.degenerate
def test_a_micro_batch_without_tokens_adds_nothing():
    nothing = torch.zeros_like(MASK)
    assert MicroTokenMean()(COST, nothing, totals(MASK)) == 0
    assert MicroTokenMean()(COST, nothing, totals(nothing)) == 0
