from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from isentropic.batch import RolloutBatch
from isentropic.rollout.curation.grop import Grop

GROP = instantiate(OmegaConf.load(Path(__file__).parents[3] / "configs/rollout/curation/grop.yaml").grop)


def batch(lengths, correct, group=None):
    lengths, rows = torch.tensor(lengths), len(lengths)
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    correct = torch.tensor(correct, dtype=torch.bool)
    return RolloutBatch(
        tokens=mask.long(),
        mask=mask,
        group=torch.zeros(rows, dtype=torch.long) if group is None else torch.tensor(group),
        reward=correct.float(),
        correct=correct,
        truncated=~correct,
        sampler_logp=torch.zeros(mask.shape),
    )


def penalties(rollouts, grop=GROP):
    return (grop(rollouts).reward - rollouts.reward).tolist()


@pytest.mark.golden
@pytest.mark.parametrize(
    "correct, expected",
    [
        ([1, 0, 1, 0], [0, 0, 0, -0.4]),  # knee 500; as many right as wrong: the wrong are charged
        ([1, 1, 1, 0], [0, 0, -0.3, 0]),  # easy: knee 250, of the right answers
        ([1, 0, 0, 0], [0, 0, 0, 0]),  # hard
    ],
)
def test_the_specified_lengths(correct, expected):
    assert penalties(batch([100, 200, 400, 900], correct)) == pytest.approx(expected, abs=2e-6)


@pytest.mark.golden
def test_between_easy_and_hard_the_larger_side_is_charged():
    lengths = [100, 100, 300, 900, 900]  # middle of the range 500, mean 460
    assert penalties(batch(lengths, [1, 1, 0, 1, 0])) == pytest.approx([0, 0, 0, -0.4, 0])
    assert penalties(batch(lengths, [1, 0, 1, 0, 0])) == pytest.approx([0, 0, 0, -0.4, -0.4])


@pytest.mark.golden
def test_the_knee_is_the_middle_of_the_range_or_the_mean():
    assert penalties(batch([10] * 9 + [400], [1] * 10))[-1] == pytest.approx(-0.5 * 195 / 205)
    assert penalties(batch([10] * 3 + [2000] * 7, [1] * 10))[3] == pytest.approx(-0.5 * 597 / 1403)


@pytest.mark.invariance
@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=9))
def test_no_answer_loses_the_whole_penalty_and_only_one_side_loses_any(answers):
    lengths, correct = zip(*answers, strict=True)
    taken = penalties(batch(lengths, correct))
    assert all(-0.5 < loss <= 0 for loss in taken)
    assert len({right for right, loss in zip(correct, taken, strict=True) if loss < 0}) <= 1


@pytest.mark.invariance
def test_groups_do_not_see_each_other_and_rows_may_lie_anywhere():
    rollouts = batch([100, 200, 400, 900] * 2, [1, 0, 1, 0, 1, 1, 1, 0], [9] * 4 + [2] * 4)
    expected = torch.tensor([0, 0, 0, -0.4, 0, 0, -0.3, 0])
    order = torch.tensor([7, 3, 0, 4, 2, 5, 1, 6])
    assert penalties(rollouts) == pytest.approx(expected.tolist(), abs=1e-6)
    assert penalties(rollouts[order]) == pytest.approx(expected[order].tolist(), abs=1e-6)


@pytest.mark.invariance
def test_only_the_reward_changes():
    rollouts = batch([100, 900], [1, 0])
    shaped = GROP(rollouts)
    assert all(torch.equal(getattr(shaped, name), value) for name, value in vars(rollouts).items() if name != "reward")
    assert rollouts.reward.tolist() == [1, 0]


@pytest.mark.degenerate
@pytest.mark.parametrize("correct", [[1], [0], [1, 1], [0, 0]])
def test_answers_of_one_length_are_not_charged(correct):
    assert penalties(batch([7] * len(correct), correct)) == [0] * len(correct)


@pytest.mark.degenerate
def test_shares_are_compared_as_counts():
    lengths, correct = [10] * 9 + [100], [0] * 3 + [1] * 7  # 0.7 in floats is not 7 / 10
    assert penalties(batch(lengths, correct), Grop(easy=0.7, penalty=1.0))[-1] < 0
    wrong = [not one for one in correct]
    assert not any(penalties(batch(lengths, wrong), Grop(easy=0.7, penalty=1.0)))


@pytest.mark.parametrize("easy, penalty, name", [(0.5, 0.5, "easy=0.5"), (1.1, 0.5, "easy=1.1"), (0.75, -1, "penalty")])
def test_settings_out_of_range_are_refused(easy, penalty, name):
    with pytest.raises(ValueError, match=f"grop.{name}"):
        Grop(easy=easy, penalty=penalty)
