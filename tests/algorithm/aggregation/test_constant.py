import pytest
import torch

from isentropic.algorithm.aggregation.constant import Constant
from isentropic.tensors import totals

COST = torch.tensor([[1.0, 1, 1, 1], [5, torch.nan, torch.inf, 9]])
MASK = torch.tensor([[True] * 4, [True, False, False, False]])


@pytest.mark.parametrize("length, expected", [(1, 4.5), (4, 1.125)])
def test_a_full_length_answer_counts_one(length, expected):
    assert Constant(length)(COST, MASK, totals(MASK)).item() == expected


def test_the_width_of_the_batch_does_not_matter():
    wide = [torch.nn.functional.pad(x, (0, 3)) for x in (COST, MASK)]
    assert Constant(4)(*wide, totals(MASK)) == Constant(4)(COST, MASK, totals(MASK))


def test_a_length_below_one_is_refused():
    with pytest.raises(ValueError, match=r"aggregation\.length=0"):
        Constant(0)
