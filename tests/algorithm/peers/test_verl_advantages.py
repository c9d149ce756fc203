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
    "rloo": (["algorithm=rloo"], "rloo", {}),
    "rloo, vectorized": (["algorithm=rloo"], "rloo_vectorized", {}),
    "opo": (["algorithm=opo"], "opo", {}),
    "reinforce_plus_plus": (["algorithm=reinforce_plus_plus"], "reinforce_plus_plus", {}),
    "reinforce_plus_plus, discounted": (
        ["algorithm=reinforce_plus_plus", "algorithm.advantage.gamma=0.9"],
        "reinforce_plus_plus",
        {"gamma": 0.9},
    ),
    "reinforce_plus_plus_baseline": (
        ["algorithm=reinforce_plus_plus_baseline"],
        "reinforce_plus_plus_baseline",
        {},
    ),
}


@pytest.fixture
def verl_advantages(core_algos):
    """verl's own estimator; it finds the reward at the last token of each answer."""

    def estimated(name, batch, gamma=1.0, **settings):
        rewards = torch.zeros_like(batch.old_logp)
        last = (batch.mask.sum(-1) - 1).clamp(min=0)
        rewards[torch.arange(len(last)), last] = batch.reward
        index = batch.group.numpy()
        settings["config"] = core_algos.AlgoConfig(gamma=gamma)
        estimator = core_algos.get_adv_estimator_fn(name)
        return estimator(rewards, response_mask=batch.mask.to(rewards), index=index, **settings)[0]

    return estimated


@pytest.mark.parametrize("name", ESTIMATORS)
def test_advantages_are_verls(build, verl_advantages, a_step, name):
    overrides, theirs, settings = ESTIMATORS[name]
    batch, _ = a_step
    ours = build(*overrides).advantage(batch)
    assert torch.allclose(ours, verl_advantages(theirs, batch, **settings).to(ours), rtol=0, atol=1e-6)
    assert ours.abs().max() > 0.2


# The advantage of a lone answer worth 0.7.
ALONE = [("grpo", "grpo", 0.7), ("dr_grpo", "grpo", 0.7), ("rloo", "rloo", 0.7), ("rloo", "rloo_vectorized", 0.0)]


@pytest.mark.parametrize("recipe, theirs, worth", [*ALONE, ("opo", "opo", 0.7)])
def test_an_answer_without_peers_keeps_its_reward_in_verl_and_gets_nothing_here(
    build, verl_advantages, paper, recipe, theirs, worth
):
    batch, _ = paper
    batch = replace(batch, group=torch.tensor([0, 0, 0, 1]), reward=torch.tensor([1.0, 0, 1, 0.7]).double())
    assert verl_advantages(theirs, batch)[3, 0].item() == pytest.approx(worth, abs=2e-6)
    assert build(f"algorithm={recipe}").advantage(batch)[3, 0].item() == 0


@pytest.mark.parametrize(
    "recipe, theirs, noise",
    [
        ("grpo", "grpo", 0.056),
        ("grpo", "grpo_vectorized", 0.056),
        ("reinforce_plus_plus", "reinforce_plus_plus", 0.0006),
        ("reinforce_plus_plus_baseline", "reinforce_plus_plus_baseline", 0.0),
    ],
)
def test_equal_rewards_may_leave_noise_in_verl_and_nothing_here(build, verl_advantages, paper, recipe, theirs, noise):
    """Eight answers worth 0.7 each, in float32."""
    batch, _ = paper
    eight = torch.arange(8) % 4
    batch = replace(batch[eight], group=eight * 0, reward=torch.full((8,), 0.7), old_logp=batch.old_logp[eight].float())
    assert verl_advantages(theirs, batch).abs().max().item() == pytest.approx(noise, rel=0.02)
    assert build(f"algorithm={recipe}").advantage(batch).abs().max() == 0
