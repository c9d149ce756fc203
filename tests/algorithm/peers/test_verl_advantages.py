"""Advantages against verl's own. Where the definitions differ, the test has the numbers."""

from dataclasses import replace

import pytest
import torch

pytestmark = pytest.mark.parity

# Our override, verl's name of the same estimator, and verl's settings for it.
ESTIMATORS = {
    "grpo": (["algorithm=grpo"], "grpo", {}),
    "grpo, vectorized": (["algorithm=grpo"], "grpo_vectorized", {}),
    "dr_grpo": (["algorithm=dr_grpo"], "grpo", {"norm_adv_by_std_in_grpo": False}),
    "dr_grpo, vectorized": (["algorithm=dr_grpo"], "grpo_vectorized", {"norm_adv_by_std_in_grpo": False}),
}


@pytest.fixture
def verl_advantages(core_algos):
    """verl's own estimator; it finds the reward at the last token of each answer."""

    def estimated(name, batch, **settings):
        rewards = torch.zeros_like(batch.old_logp)
        last = (batch.mask.sum(-1) - 1).clamp(min=0)
        rewards[torch.arange(len(last)), last] = batch.reward
        index = batch.group.numpy()
        settings |= {"config": core_algos.AlgoConfig()} if name.startswith("reinforce") else {}
        estimator = core_algos.get_adv_estimator_fn(name)
        return estimator(rewards, response_mask=batch.mask.double(), index=index, **settings)[0]

    return estimated


@pytest.mark.parametrize("name", ESTIMATORS)
def test_advantages_are_verls(build, verl_advantages, a_step, name):
    overrides, theirs, settings = ESTIMATORS[name]
    batch, _ = a_step
    ours = build(*overrides).advantage(batch)
    assert torch.allclose(ours, verl_advantages(theirs, batch, **settings).to(ours), rtol=0, atol=1e-6)
    assert ours.abs().max() > 0.2


def test_an_answer_without_peers_keeps_its_reward_in_verl_and_gets_nothing_here(build, verl_advantages, paper):
    batch, _ = paper
    batch = replace(batch, group=torch.tensor([0, 0, 0, 1]), reward=torch.tensor([1.0, 0, 1, 0.7]).double())
    assert verl_advantages("grpo", batch)[3, 0].item() == pytest.approx(0.7, abs=2e-6)
    assert build("algorithm=grpo").advantage(batch)[3, 0].item() == 0


def test_equal_rewards_leave_noise_in_verl_and_nothing_here(build, verl_advantages, paper):
    batch, _ = paper
    eight = torch.arange(8) % 4
    batch = replace(batch[eight], group=eight * 0, reward=torch.full((8,), 0.7))
    batch = replace(batch, old_logp=batch.old_logp.float())
    assert verl_advantages("grpo", batch).abs().max().item() == pytest.approx(0.056, abs=1e-3)
    assert build("algorithm=grpo").advantage(batch).abs().max() == 0
