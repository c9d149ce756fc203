import pytest
import torch

from isentropic.batch import RolloutBatch
from isentropic.rollout.curation.informative import Informative


def batch(correct, group, reward=None):
    correct = torch.tensor(correct, dtype=torch.bool)
    size = len(correct)
    return RolloutBatch(
        tokens=torch.arange(size)[:, None].expand(size, 3),
        mask=torch.ones(size, 3, dtype=torch.bool),
        group=torch.tensor(group),
        reward=correct.float() if reward is None else torch.tensor(reward),
        correct=correct,
        truncated=torch.zeros(size, dtype=torch.bool),
        sampler_logp=torch.zeros(size, 3),
    )


def test_groups_all_right_or_all_wrong_are_dropped_whole():
    kept = Informative(0.0, 1.0)(batch([1, 1, 0, 1, 0, 0, 1, 0], [5, 5, 9, 9, 2, 2, 7, 7]))
    assert kept.group.tolist() == [9, 9, 7, 7]
    assert kept.tokens[:, 0].tolist() == [2, 3, 6, 7]


def test_the_verdict_decides_and_not_the_shaped_reward():
    assert len(Informative(0.0, 1.0)(batch([1, 1], [0, 0], reward=[1.0, 0.5])).group) == 0
    assert len(Informative(0.0, 1.0)(batch([1, 0], [0, 0], reward=[0.0, 0.0])).group) == 2


def test_rows_of_a_group_need_not_be_neighbours():
    kept = Informative(0.0, 1.0)(batch([1, 1, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]))
    assert kept.tokens[:, 0].tolist() == [0, 2, 4]


def test_large_groups_are_counted_exactly():
    for right in (0, 1, 6, 7):
        kept = Informative(0.0, 1.0)(batch([1] * right + [0] * (7 - right), [3] * 7))
        assert len(kept.group) == (7 if 0 < right < 7 else 0)
    assert len(Informative(0.0, 1.0)(batch([1] * 1023 + [0], [3] * 1024)).group) == 1024


def test_nothing_kept_is_an_empty_batch():
    kept = Informative(0.0, 1.0)(batch([1, 1], [0, 0]))
    assert kept.tokens.shape == (0, 3)


def test_bounds_may_be_narrower():
    groups = [number for number in range(5) for _ in range(4)]
    right = [int(place < share) for share in (1, 2, 3, 4, 0) for place in range(4)]
    kept = Informative(0.25, 1.0)(batch(right, groups))
    assert kept.group.unique().tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"informative\.above=0\.9 and below=0\.1 are shares"):
        Informative(0.9, 0.1)
