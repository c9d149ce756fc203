import pytest
import torch

from isentropic.algorithm.aggregation.token_mean import TokenMean
from isentropic.reductions import totals
from isentropic.rollout.collate import Segment, collate_segments
from isentropic.task import Verdict


def test_every_token_counts_the_same():
    cost = torch.tensor([[1.0, 1, 1, 1], [5, torch.nan, torch.inf, 9]])
    mask = torch.tensor([[True] * 4, [True, False, False, False]])
    assert TokenMean()(cost, mask, totals(mask)).item() == torch.tensor(1.8)


@pytest.mark.golden
@pytest.mark.parametrize("observed", [[], [[7, 7, 7]], [[7], [7] * 50]])
def test_rows_of_5_and_2_chosen_tokens_are_divided_by_7_whatever_is_observed(observed):
    between = [Segment(tokens, None, chosen=False) for tokens in observed]
    prompt, first = Segment([5, 6], None, chosen=False), Segment([8, 8], [-1.0, -1.0], chosen=True)
    rows = [[prompt, first, *between, Segment([9] * 3, [-1.0] * 3, chosen=True), *between], [prompt, first, *between]]
    batch = collate_segments(rows, [Verdict(0.0, False, "wrong")] * 2, *[[False] * 2] * 2, [0, 0], *[[0, 1]] * 2)
    cost = torch.full(batch.tokens.shape, torch.nan)
    cost[batch.mask] = torch.tensor([1.0, 2, 4, 8, 16, 32, 64])
    counts = totals(batch.mask)
    assert counts.tokens.item() == 7
    torch.testing.assert_close(TokenMean()(cost, batch.mask, counts), torch.tensor(127 / 7))
