import pytest
import torch

from isentropic.batch import Credit, TokenStats
from isentropic.reductions import totals


@pytest.fixture
def credit():
    mask = torch.tensor([[True, True, True], [True, False, False]])
    return Credit.initial(torch.tensor([[1.0, 1.0, 1.0], [-2.0, 0.0, 0.0]]), mask)


def test_a_record_is_cut_as_one(credit):
    for rows in slice(1, 2), torch.tensor([1]), torch.tensor([False, True]):
        assert credit[rows].advantages.tolist() == [[-2, 0, 0]]
        assert credit[rows].mask.tolist() == [[True, False, False]]


def test_a_record_moves_as_one(credit):
    moved = credit.to("meta")
    assert (type(moved), moved.advantages.device.type, moved.mask.device.type) == (Credit, "meta", "meta")


def test_scaled_tokens_stay_in_the_divisor(credit):
    scaled = credit.scale(torch.zeros(2, 3))
    assert totals(scaled.mask).tokens == 4
    assert scaled.advantages.abs().sum() == 0


def test_dropped_tokens_leave_the_divisor(credit):
    first = torch.tensor([[True, False, False]]).expand(2, 3)
    dropped = totals(credit.drop(first).mask)
    assert (dropped.tokens, dropped.sequences) == (2, 1)


def test_ties_add_up_and_change_neither_advantages_nor_the_divisor(credit):
    first, praised = torch.tensor([[True, False, False]]).expand(2, 3), credit.advantages > 0
    tied = credit.add_kl(first, 0.5).add_kl(praised, 2.0)
    assert credit.kl_weight.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert tied.kl_weight.tolist() == [[2.5, 2, 2], [0.5, 0, 0]]
    assert torch.equal(tied.advantages, credit.advantages)
    assert torch.equal(tied.mask, credit.mask)


def test_shapes_are_checked_in_tests():
    with pytest.raises(Exception, match="entropy"):
        TokenStats(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2, 3))
