from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

from isentropic.algorithm.advantage.grpo import Grpo
from isentropic.batch import RolloutBatch, ScoredBatch
from isentropic.config.compose import compose, loader_of
from isentropic.rollout.curation.overlong import Overlong

CONFIGS = Path(__file__).parents[3] / "configs"


def batch(lengths, reward, dtype=torch.float32):
    lengths, rows = torch.tensor(lengths), len(lengths)
    mask = torch.arange(int(lengths.max()) + 1) < lengths[:, None]
    return RolloutBatch(
        tokens=torch.zeros(mask.shape, dtype=torch.long),
        mask=mask,
        group=torch.zeros(rows, dtype=torch.long),
        reward=torch.tensor(reward, dtype=dtype),
        correct=torch.tensor(reward) > 0,
        truncated=torch.zeros(rows, dtype=torch.bool),
        sampler_logp=torch.zeros(mask.shape),
    )


def composed(*overrides):
    """The curators of a run, in their order."""
    curation = compose(loader_of(CONFIGS), "train", list(overrides)).rollout.curation
    return {name: instantiate(curator) for name, curator in curation.items()}


LENGTHS = [16384, 16385, 18432, 20480, 20481]


@pytest.mark.golden
def test_the_papers_lengths():
    overlong = composed("rollout=dapo", "rollout.decoding.max_tokens=20480")["overlong"]
    assert (overlong.max_length, overlong.buffer) == (20480, 4096)
    penalty = overlong(batch(LENGTHS, [0.0] * 5)).reward.tolist()
    assert penalty == pytest.approx([0, -0.000244, -0.5, -1, -1], abs=2e-6)
    verl = [min(-(length - 16384) / 4096, 0) for length in LENGTHS]  # no floor, which capped generation never meets
    assert verl == pytest.approx([0, -0.000244, -0.5, -1, -1.000244], abs=2e-6)


@pytest.mark.golden
def test_dapos_rollouts_are_paid_1_and_minus_1_then_sampled_by_accuracy_then_shaped():
    curators = composed("rollout=dapo", "rollout.decoding.max_tokens=18", "rollout.curation.overlong.buffer=8")
    assert list(curators) == ["outcome", "informative", "overlong"]
    rollouts = batch([14, 10, 10, 12], [1.0, 0.0, 1.0, 0.0], torch.float64)
    for curator in curators.values():
        rollouts = curator(rollouts)
    assert rollouts.reward.tolist() == pytest.approx([0.5, -1.0, 1.0, -1.25])


@pytest.mark.golden
def test_the_penalty_is_added_before_advantages_are_normalised():
    rollouts = batch([14, 10, 10, 12], [1.0, -1.0, 1.0, -1.0], torch.float64)
    shaped = Overlong(max_length=18, buffer=8, count="chosen")(rollouts)
    assert shaped.reward.tolist() == pytest.approx([0.5, -1.0, 1.0, -1.25])
    logp = shaped.sampler_logp
    advantages = Grpo(divide_by_std=True)(
        ScoredBatch(**vars(shaped), old_logp=logp, old_entropy=logp, old_sensitivity=logp, ref_logp=logp)
    )
    assert advantages[:, 0].tolist() == pytest.approx([0.621425, -0.734412, 1.073371, -0.960385], abs=2e-6)


def test_only_the_reward_changes():
    rollouts = batch([4, 2], [1.0, 0.0])
    shaped = Overlong(max_length=4, buffer=2, count="chosen")(rollouts)
    assert shaped.reward.tolist() == [0.0, 0.0]
    assert torch.equal(shaped.correct, rollouts.correct)
    assert shaped.mask is rollouts.mask
    assert rollouts.reward.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("max_length", "buffer"), [(10, 0), (10, 11), (0, 0), (10, -1)])
def test_a_buffer_that_does_not_fit_is_refused(max_length, buffer):
    with pytest.raises(ValueError, match=f"buffer={buffer} must be from 1 to overlong.max_length={max_length}"):
        Overlong(max_length=max_length, buffer=buffer, count="chosen")


def test_what_is_read_between_turns_makes_no_answer_overlong_unless_it_is_counted():
    mask = torch.tensor([[0, 1, 1, 0, 0, 0, 1, 1], [0, 1, 1, 1, 1, 0, 0, 0], [0] * 8]).bool()
    zero = torch.zeros(3)
    rows = RolloutBatch(mask.long(), mask, zero.long(), zero, zero > 0, zero > 0, mask * 0.0)
    assert Overlong(max_length=8, buffer=4, count="chosen")(rows).reward.tolist() == [0.0, 0.0, 0.0]  # 4, 4 and 0
    assert Overlong(max_length=8, buffer=4, count="all")(rows).reward.tolist() == [-0.75, 0.0, 0.0]  # 7, 4 and 0
