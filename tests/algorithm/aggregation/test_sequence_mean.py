import torch

from isentropic.algorithm.aggregation.sequence_mean import SequenceMean
from isentropic.reductions import totals


def test_every_answer_counts_the_same():
    cost = torch.tensor([[1.0, 1, 1, 1], [5, torch.nan, torch.inf, 9]])
    mask = torch.tensor([[True] * 4, [True, False, False, False]])
    assert SequenceMean()(cost, mask, totals(mask)).item() == 3


def test_answers_that_take_no_part_are_not_counted():
    cost = torch.tensor([[1.0, 3], [5, 5]])
    mask = torch.tensor([[True, True], [False, False]])
    assert SequenceMean()(cost, mask, totals(mask)).item() == 2
