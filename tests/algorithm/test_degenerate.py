"""Input from which nothing can be learnt, or that floats can hardly hold, by any recipe: no gradient, and never NaN.

That all ranks step where one has nothing is in test_ranks.py.
"""

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fixtures.models import unchecked
from torch.distributions import Categorical

from isentropic.batch import Vitals
from isentropic.policy.model.logprobs import logits_stats

CONFIGS = Path(__file__).parents[2] / "configs/algorithm"
CONTROLLERS = sorted(path.stem for path in (CONFIGS / "control").glob("*.yaml"))


CHECKED = set()


@pytest.fixture(autouse=True)
def shapes_checked_once(request):
    """Of one test's cases with one recipe in the first alone: the others have the same shapes."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    case = request.function, params.get("recipe"), params.get("rows"), params.get("dtype")
    with unchecked() if case in CHECKED else nullcontext():
        yield
    CHECKED.add(case)


def flat(reward):
    return ((reward,) * 4,) * 4


def nothing_is_pushed(bigrams, algorithm, policy, batch):
    """Beside what its penalties ask for, whatever the rewards: every advantage is zero, and so is the gradient."""
    assert torch.equal(algorithm.advantage(batch), torch.zeros_like(batch.old_logp))
    pushed = bigrams.step(replace(algorithm, penalty={}), policy, batch)
    assert (pushed[: policy.numel() + 1] == 0).all(), batch.reward


@pytest.mark.degenerate
def test_equal_rewards_push_nothing(recipe, acting, bigrams):
    equal_rewards_push_nothing(recipe, acting, bigrams, 1.0, 0)
    with unchecked():  # of the same shapes
        for reward, certain in [(1.0, 2), (0.0, 0), (0.7, 0), (0.7, 2), (0.1, 0), (-0.3, 0)]:
            equal_rewards_push_nothing(recipe, acting, bigrams, reward, certain)


def equal_rewards_push_nothing(recipe, acting, bigrams, reward, certain):
    policy, batch = bigrams.rollouts(rewards=flat(reward), certain=certain)
    if recipe in bigrams.PUSHED:
        direction = torch.where(batch.mask, bigrams.PUSHED[recipe][int(reward > 0)], 0)
        assert torch.equal(acting.advantage(batch).sign(), direction.float()), (reward, certain)
    else:
        nothing_is_pushed(bigrams, acting, policy, batch)
    assert bigrams.step(acting, policy, batch).isfinite().all(), (reward, certain)


@pytest.mark.degenerate
@pytest.mark.parametrize("reward", [1.0, 0.0])
def test_truncated_answers_that_still_count_are_finite(acting, bigrams, reward):
    policy, batch = bigrams.rollouts(rewards=flat(reward))
    batch = replace(batch, truncated=~batch.truncated)
    assert bigrams.step(acting, policy, batch).isfinite().all()


@pytest.mark.degenerate
@pytest.mark.parametrize("rows", [16, 1])
def test_a_batch_without_tokens_costs_nothing(acting, bigrams, rows):
    policy, batch = bigrams.rollouts()
    batch = replace(batch, mask=batch.mask & False)[:rows]
    found = bigrams.step(acting, policy, batch)
    assert (found[: policy.numel() + 1] == 0).all()
    assert found.isfinite().all()


@pytest.mark.degenerate
def test_answers_without_tokens_change_no_other(acting, bigrams):
    policy, batch = bigrams.rollouts()
    silent = replace(batch, mask=batch.mask & (torch.arange(16) % 4 != 1)[:, None])
    found, _ = bigrams.gradient(acting, policy, silent)
    assert found.isfinite().all()
    assert (found[:, ~silent.mask] == 0).all()
    assert (found != 0).any()


@pytest.mark.degenerate
@pytest.mark.parametrize("row", [0, 1])
def test_one_answer_has_no_peers(recipe, acting, bigrams, row):
    policy, batch = bigrams.rollouts()
    batch = batch[row : row + 1]
    if recipe in bigrams.PUSHED:
        assert bigrams.step(acting, policy, batch).isfinite().all()
    else:
        nothing_is_pushed(bigrams, acting, policy, batch)


@pytest.mark.degenerate
@pytest.mark.parametrize("logp", [-0.5, 0.0, -30.0])
def test_equal_surprisals_are_finite(acting, bigrams, logp):
    policy, batch = bigrams.rollouts()
    same = torch.full_like(batch.old_logp, logp)
    for entropy in (1.0, 0.0):
        level = torch.full_like(same, entropy)
        equal = {"old_logp": same, "sampler_logp": same, "ref_logp": same, "old_entropy": level}
        batch = replace(batch, **equal, old_sensitivity=same * 0)
        assert bigrams.step(acting, policy, batch).isfinite().all(), entropy
        now = bigrams.TokenStats(same, level, same * 0)
        found, _ = bigrams.gradient(acting, policy, batch, now=now)
        assert found.isfinite().all(), entropy
        assert (found[:, ~batch.mask] == 0).all(), entropy


@pytest.mark.degenerate
@pytest.mark.parametrize("logits", [[0.0, 0.0, -torch.inf], [65504.0, -65504.0, 0.0], [-torch.inf, 5.0, -torch.inf]])
def test_logits_at_the_ends_of_fp16_are_finite(acting, bigrams, logits):
    policy, batch = bigrams.rollouts()
    policy[:, :3] = torch.tensor(logits)
    possible = bigrams.read(policy, batch, 0.0).logp > -torch.inf
    batch = replace(batch, mask=batch.mask & possible)
    found = bigrams.step(acting, policy, batch)
    assert found.isfinite().all()
    old = bigrams.read(policy, batch)
    batch = replace(batch, old_logp=old.logp, old_entropy=old.entropy, old_sensitivity=old.sensitivity)
    assert bigrams.step(acting, policy, batch).isfinite().all()


@pytest.mark.degenerate
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("logits", [[0, 0, -torch.inf], [65504, -65504], [-65504, 65504, 65504], [5, -torch.inf]])
@pytest.mark.parametrize("target", [0, 1])
def test_stats_of_such_logits_are_those_of_the_categorical(dtype, logits, target):
    bias = torch.tensor(logits, dtype=dtype).requires_grad_()
    weight, states = torch.zeros(len(logits), 1, dtype=dtype), torch.zeros(1, 1, dtype=dtype)
    chosen = torch.tensor([target])
    logp, entropy, _ = logits_stats(states, weight, bias, chosen, 1.0, "gradient")
    sensitivity = logits_stats(states, weight, bias, chosen, 1.0, "value")[2]
    (gradient,) = torch.autograd.grad(entropy.sum(), bias)

    kept = bias.detach() > -torch.inf
    real = bias.detach()[kept].double().requires_grad_()
    distribution = Categorical(logits=real)
    torch.testing.assert_close(entropy, distribution.entropy().float()[None])
    (expected,) = torch.autograd.grad(distribution.entropy(), real)
    torch.testing.assert_close(gradient[kept], expected.to(dtype))
    assert (gradient[~kept] == 0).all()
    if kept[target]:
        torch.testing.assert_close(logp, distribution.log_prob(torch.tensor(target)).float()[None])
        direction = torch.nn.functional.one_hot(chosen[0], len(real)) - distribution.probs
        torch.testing.assert_close(sensitivity, -(expected * direction).sum().float()[None])
    assert sensitivity.isfinite().all()


@pytest.mark.degenerate
@pytest.mark.parametrize("control", CONTROLLERS)
@pytest.mark.parametrize("blind", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("when", [0, 1])
def test_a_blind_sensor_drives_nothing_to_nan(build, bigrams, control, blind, when):
    algorithm = build("algorithm=stare", f"algorithm/control={control}", "algorithm/penalty=[entropy_bonus]")
    controller = deepcopy(algorithm.control)
    readings = [0.5, 0.2]
    readings.insert(when, blind)
    for step, entropy in enumerate(readings):
        try:
            drive = controller.update(Vitals(entropy=entropy, progress=step / 10))
        except ValueError as refusal:
            assert not torch.tensor(entropy).isfinite() and "entropy" in str(refusal)
            continue
        assert torch.tensor([drive.up, drive.down]).isfinite().all()
        assert torch.tensor(list(controller.state_dict().values())).isfinite().all()
        policy, batch = bigrams.rollouts()
        assert bigrams.gradient(algorithm, policy, batch, drive=drive)[0].isfinite().all()


@pytest.mark.degenerate
@pytest.mark.parametrize("everywhere", [True, False])
def test_entropies_that_were_not_read_are_refused_or_not_needed(acting, bigrams, everywhere):
    policy, batch = bigrams.rollouts()
    unread = batch.mask & (everywhere | (batch.old_entropy > batch.old_entropy[batch.mask].median()))
    blind = {name: getattr(batch, name).masked_fill(unread, torch.nan) for name in ("old_entropy", "old_sensitivity")}
    now = bigrams.read(policy, batch)
    now = bigrams.TokenStats(now.logp, *[x.masked_fill(unread, torch.nan) for x in (now.entropy, now.sensitivity)])
    try:
        credit, _, metrics = bigrams.assigned(
            acting, now, replace(batch, **blind), bigrams.driven(acting, replace(batch, **blind))
        )
    except ValueError as refusal:
        assert "entropy" in str(refusal) or "sensitivity" in str(refusal)
    else:
        assert credit.advantages[credit.mask].isfinite().all()
        assert torch.tensor([float(value) for value in metrics.values()]).isfinite().all()


@pytest.mark.degenerate
def test_a_policy_that_is_certain_in_places_learns_elsewhere(acting, bigrams):
    policy, batch = bigrams.rollouts(seed=2, certain=2)
    assert (batch.old_entropy[batch.mask] == 0).any()
    found = bigrams.step(acting, policy, batch)
    assert found.isfinite().all()
    assert found[: policy.numel()].abs().max() > 1e-4
