import torch

from isentropic.algorithm.aggregation.token_mean import TokenMean
from isentropic.reductions import totals


def test_every_token_counts_the_same():
    cost = torch.tensor([[1.0, 1, 1, 1], [5, torch.nan, torch.inf, 9]])
    mask = torch.tensor([[True] * 4, [True, False, False, False]])
    assert TokenMean()(cost, mask, totals(mask)).item() == torch.tensor(1.8)
