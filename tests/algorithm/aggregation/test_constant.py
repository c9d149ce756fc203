import pytest
import torch

from isentropic.algorithm.aggregation.constant import Constant
from isentropic.reductions import totals

COST = torch.tensor([[1.0, 1, 1, 1], [5, torch.nan, torch.inf, 9]])
MASK = torch.tensor([[True] * 4, [True, False, False, False]])


@pytest.mark.parametrize("length, expected", [(1, 4.5), (4, 1.125)])
def test_a_full_length_answer_counts_one(length, expected):
    assert Constant(length, True)(COST, MASK, totals(MASK)).item() == expected


@pytest.mark.golden
@pytest.mark.parametrize(
    "length, by_sequences, expected", [(1, True, 1.508325), (5, False, 1.206660), (5, True, 0.301665)]
)
def test_the_fixture_as_verl_adds_it_up(build, charge, paper, length, by_sequences, expected):
    settings = f"algorithm.aggregation.length={length}", f"algorithm.aggregation.divide_by_sequences={by_sequences}"
    algorithm = build("algorithm=dapo", "algorithm/aggregation=constant", *settings)
    assert charge(algorithm, *paper)[0] == pytest.approx(expected, abs=2e-6)
    assert charge(algorithm, *paper, [0, 1], [2, 3])[0] == pytest.approx(expected, abs=2e-6)


def test_without_division_the_loss_grows_with_the_batch():
    twice = [torch.cat([x, x]) for x in (COST, MASK)]
    for by_sequences, times in ((True, 1), (False, 2)):
        constant = Constant(4, by_sequences)
        assert constant(*twice, totals(twice[1])) == times * constant(COST, MASK, totals(MASK))


@pytest.mark.invariance
def test_the_width_of_the_batch_does_not_matter():
    wide = [torch.nn.functional.pad(x, (0, 3)) for x in (COST, MASK)]
    assert Constant(4, True)(*wide, totals(MASK)) == Constant(4, True)(COST, MASK, totals(MASK))


def test_a_length_below_one_is_refused():
    with pytest.raises(ValueError, match=r"aggregation\.length=0"):
        Constant(0, True)
