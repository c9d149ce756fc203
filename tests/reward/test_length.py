import pytest
import torch

from isentropic.batch import RolloutBatch
from isentropic.reward.length import Length
from isentropic.rollout.curation.overlong import Overlong


def test_without_a_lower_end_it_is_the_curator_overlong(answer):
    lengths = list(range(1, 40))
    mask = torch.arange(40) < torch.tensor(lengths)[:, None]
    row, blank = torch.zeros(len(lengths)), mask * 0.0
    batch = RolloutBatch(mask.long(), mask, row.long(), row, row > 0, row > 0, blank)
    theirs = Overlong(max_length=30, buffer=12, count="chosen")(batch).reward
    ours = Length(weight=1.0, shortest=0, longest=18, buffer=12)([answer(tokens=[5] * n) for n in lengths])
    assert ours == theirs.tolist() and min(ours) == -1 and ours[17] == 0 > ours[18]


def test_a_target_costs_on_both_sides(answer):
    target = Length(weight=1.0, shortest=10, longest=12, buffer=4)
    lengths = [4, 6, 8, 10, 12, 13, 16, 17]
    assert target([answer(tokens=[5] * n) for n in lengths]) == [-1, -1, -0.5, 0, 0, -0.25, -1, -1]


def test_a_range_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"reward\.length\.shortest=9 must be from 0 to longest=8"):
        Length(weight=1.0, shortest=9, longest=8, buffer=1)
    with pytest.raises(ValueError, match=r"reward\.length\.buffer=0 must be at least 1 token"):
        Length(weight=1.0, shortest=0, longest=8, buffer=0)
