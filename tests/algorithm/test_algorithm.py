from dataclasses import replace

import pytest
import torch

from isentropic.reductions import masked_mean, row_mean

NO_DUAL = "algorithm.clipping.ceiling=inf"
OPEN = "algorithm.control.target=1.2"  # the fixture's entropy is 1.007143
WIDE = "algorithm.credit.stare.top=0.25"


@pytest.mark.golden
@pytest.mark.parametrize(
    "expected, overrides",
    [
        (0.636688, ["algorithm=grpo", NO_DUAL]),
        (0.593639, ["algorithm=grpo", NO_DUAL, "algorithm/aggregation=token_mean"]),
        (0.239917, ["algorithm=dr_grpo", NO_DUAL, "algorithm.aggregation.length=5"]),
        (0.430950, ["algorithm=dapo"]),
        (-0.002062, ["algorithm=dapo", "algorithm.clipping.ceiling=3"]),
        (0.585597, ["algorithm=dapo", NO_DUAL]),
        (0.495743, ["algorithm=dapo", "algorithm/aggregation=sequence_mean"]),
        (0.584526, ["algorithm=dapo", NO_DUAL, "algorithm/penalty=[entropy_bonus]"]),
    ],
)
def test_losses_worked_out_by_hand(build, charge, paper, expected, overrides):
    assert charge(build(*overrides), *paper)[0] == pytest.approx(expected, abs=2e-6)


BASE = [
    [-0.063233, -0.077324, 0, -0.041239, -0.061859],
    [0, 0.074231, 0.061859, 0, 0],
    [-0.068732, -0.061859, -0.051549, 0, 0],
    [0.077324, 0.054436, 0, 0, 0],
]


@pytest.mark.golden
def test_the_gradient_worked_out_by_hand(build, charge, paper):
    expected = torch.tensor(BASE, dtype=torch.float64)
    torch.testing.assert_close(charge(build("algorithm=dapo"), *paper)[1], expected, atol=2e-6, rtol=0)


@pytest.mark.golden
def test_the_advantages_and_ratios_worked_out_by_hand(build, paper):
    batch, now = paper
    sign = torch.tensor([1.0, -1, 1, -1], dtype=torch.float64)[:, None]
    expected = torch.where(batch.mask, 0.866024 * sign, 0)
    torch.testing.assert_close(build("algorithm=dapo").advantage(batch), expected, atol=2e-6, rtol=0)
    ratio = build("algorithm=dapo").ratio(torch.where(batch.mask, now.logp - batch.old_logp, 0), batch.mask)
    expected = [1.022222, 1.25, 1.4, 0.666667, 1, 0.714286, 1.2, 1, 12.5, 1.111111, 1, 0.833333, 1.25, 0.88]
    assert ratio.expand_as(batch.mask)[batch.mask].tolist() == pytest.approx(expected, abs=2e-6)


@pytest.mark.golden
def test_entropies_are_averaged_over_tokens(paper):
    batch, now = paper
    assert masked_mean(batch.old_entropy, batch.mask).item() == pytest.approx(1.007143, abs=2e-6)
    assert masked_mean(now.entropy, batch.mask).item() == pytest.approx(1.071429, abs=2e-6)
    assert row_mean(batch.old_entropy, batch.mask).mean().item() == pytest.approx(1.074583, abs=2e-6)


@pytest.mark.golden
def test_dual_clip_ends_the_gradient_of_blame(build, charge, paper):
    assert charge(build("algorithm=dapo"), *paper)[1][1, 3] == 0
    assert charge(build("algorithm=dapo", NO_DUAL), *paper)[1][1, 3].item() == pytest.approx(0.773236, abs=1e-6)


def test_metrics_say_what_each_part_touched(build, charge, paper):
    metrics = charge(build("algorithm=stare_c2", OPEN, WIDE), *paper)[2]
    assert metrics == pytest.approx(
        {
            "control/up": 1,
            "control/down": 0,
            "credit/stare": 4 / 14,
            "credit/stare_positive_surprising": 2 / 3,
            "credit/stare_positive_expected": 0,
            "credit/stare_negative_surprising": 1,
            "credit/stare_negative_expected": 0,
            "policy/kept": 1,
            "policy/empty": 0,
            "clipping/clipped_low": 1 / 14,
            "clipping/clipped_high": 1 / 14,
            "clipping/clipped_ceiling": 1 / 14,
        }
    )


def test_metrics_say_what_rules_leave(build, charge, paper):
    batch, now = paper
    sampler = batch.old_logp.clone()
    sampler[0] -= 1.0  # five of fourteen tokens
    algorithm = build("algorithm=dapo", "algorithm/credit=[ice_pop,sequence_mask]", "algorithm.credit.ice_pop.high=2")
    metrics = charge(algorithm, replace(batch, sampler_logp=sampler), now)[2]
    assert metrics["credit/ice_pop"] == metrics["credit/sequence_mask"] == pytest.approx(5 / 14)
    assert metrics["sampler/masked"] == pytest.approx(5 / 14), "no token is counted twice"
    assert (metrics["policy/kept"], metrics["policy/empty"]) == (pytest.approx(9 / 14), 0)
    metrics = charge(algorithm, replace(batch, sampler_logp=batch.old_logp - 1), now)[2]
    assert (metrics["sampler/masked"], metrics["policy/kept"], metrics["policy/empty"]) == (1, 0, 1)


def test_an_open_gate_reads_the_mean_over_tokens_not_sequences(build, charge, paper):
    between = "algorithm.control.target=1.05"  # the mean over tokens is 1.007, that of sequences 1.075
    assert charge(build("algorithm=stare", between), *paper)[2]["control/up"] == 1


def test_on_the_policy_that_sampled_nothing_is_clipped(build, charge, paper):
    batch, now = paper
    metrics = charge(build("algorithm=dapo"), batch, replace(now, logp=batch.old_logp))[2]
    assert [metrics[f"clipping/clipped_{side}"] for side in ("low", "high", "ceiling")] == [0, 0, 0]


RECIPES = ["grpo", "dapo", "dr_grpo", "stare", "stare_c2", "stare_adaptive"]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("reward", [[1, 1, 1, 1], [0, 0, 0, 0], [0.7, 0.7, 0.7, 0.7], [0.1, 0.1, 0.1, 0.1]])
def test_a_group_of_equal_rewards_gives_no_gradient(build, charge, paper, recipe, reward):
    batch, now = paper
    batch = replace(batch, reward=torch.tensor(reward, dtype=torch.float32))
    loss, grad, metrics, _ = charge(build(f"algorithm={recipe}"), batch, now)
    assert loss == 0
    assert torch.equal(grad, torch.zeros_like(grad))
    assert metrics.get("credit/stare", 0) == 0


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_single_response_gives_no_gradient(build, charge, paper, recipe):
    batch, now = paper
    loss, grad, _, _ = charge(build(f"algorithm={recipe}"), batch[:1], now[:1])
    assert loss == 0
    assert torch.equal(grad, torch.zeros_like(grad))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_batch_without_tokens_gives_no_gradient(build, charge, paper, recipe):
    batch, now = paper
    batch = replace(batch, mask=torch.zeros_like(batch.mask))
    loss, grad, metrics, _ = charge(build(f"algorithm={recipe}"), batch, now)
    assert loss == 0
    assert torch.equal(grad, torch.zeros_like(grad))
    assert all(v == 0 for k, v in metrics.items() if not k.startswith("control/"))


def test_settings_of_a_rule_that_is_not_selected_are_refused(build):
    algorithm = build("algorithm=grpo")
    algorithm.credit["stare"] = {"boost": 5}  # what Hydra hands over; shape checks would refuse it in other words
    with pytest.raises(ValueError, match=r"algorithm\.credit\.stare has settings .* but stare is not selected"):
        algorithm.__post_init__()
