from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.diagnostics import (
    PREDICTED,
    QUADRANTS,
    SQUARE,
    affected,
    describe,
    micro_batch_metrics,
    quadrants,
    rollout_metrics,
    shares,
)
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats, Vitals
from isentropic.policy.model.logprobs import entropy, sensitivity
from isentropic.reductions import totals

B, S, V = 6, 4, 5
LENGTHS = torch.tensor([4, 2, 3, 4, 1, 3])


def read(logits, tokens):
    """A softmax policy with logits of its own at every place."""
    log_probs = logits.log_softmax(-1)
    logp = log_probs.gather(-1, tokens[..., None])[..., 0]
    h = entropy(log_probs.flatten(0, 1))
    phi = sensitivity(log_probs.flatten(0, 1), logp.flatten(), h)
    return TokenStats(logp, h.view_as(tokens), phi.view_as(tokens))


@pytest.fixture
def softmax():
    """Logits, and a rollout of two groups by them, with NaN in the padding."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(B, S, V, generator=draw, dtype=torch.float64)
    tokens = torch.randint(V, (B, S), generator=draw)
    mask = torch.arange(S) < LENGTHS[:, None]
    stats = read(logits, tokens)
    old = [x.masked_fill(~mask, torch.nan) for x in (stats.logp, stats.entropy, stats.sensitivity)]
    reward = torch.tensor([1.0, 0, 0, 1, 1, 0], dtype=torch.float64)
    group = torch.tensor([0, 0, 0, 1, 1, 1])
    unknown = torch.full((B, S), torch.nan, dtype=torch.float64)
    return logits, ScoredBatch(tokens, mask, group, reward, reward > 0, group < 0, unknown, *old, unknown)


def charged(algorithm, logits, batch, rows):
    """Loss of some rows of one step, and what is seen of it."""
    now = read(logits, batch.tokens)
    credit, _ = algorithm.assign(algorithm.advantage(batch), now, batch, Drive(1.0, 0.0))
    count = totals(credit.mask)
    loss, _ = algorithm.loss(now[rows], batch[rows], credit[rows], Drive(1.0, 0.0), count)
    return loss, micro_batch_metrics(
        loss, now.logp, batch, now.sensitivity.detach(), credit, count
    ) if rows == ALL else None


ALL = slice(None)
OPEN = ["algorithm.credit.stare.boost=3", "algorithm.credit.stare.top=0.3"]


@pytest.mark.golden
@pytest.mark.parametrize("overrides", [["algorithm=dapo"], ["algorithm=stare_c2", *OPEN]])
def test_the_predicted_change_of_entropy_is_the_measured_one_of_a_small_step(build, softmax, overrides):
    logits, batch = softmax
    moved = logits.clone().requires_grad_()
    loss, seen = charged(build(*overrides), moved, batch, ALL)
    (gradient,) = torch.autograd.grad(loss, moved)
    size = 1e-5
    after = read(logits - size * batch.mask.sum() * gradient, batch.tokens)
    measured = (after.entropy - batch.old_entropy)[batch.mask].mean() / size
    assert abs(measured) > 1e-3
    assert float(seen[PREDICTED]) == pytest.approx(float(measured), rel=1e-3)


@pytest.mark.golden
def test_on_the_policy_that_sampled_the_prediction_is_minus_advantage_times_sensitivity(build, softmax):
    logits, batch = softmax
    algorithm = build("algorithm=dapo")
    seen = charged(algorithm, logits.clone().requires_grad_(), batch, ALL)[1]
    expected = -(algorithm.advantage(batch) * batch.old_sensitivity)[batch.mask].mean()
    assert float(seen[PREDICTED]) == pytest.approx(float(expected))
    assert float(seen["ratio/mean"]) == float(seen[SQUARE]) == pytest.approx(1)


@pytest.mark.invariance
@pytest.mark.parametrize("overrides", [["algorithm=grpo"], ["algorithm=stare", *OPEN]])
def test_micro_batches_add_up(build, softmax, overrides):
    logits, batch = softmax
    algorithm, now = build(*overrides), read(logits + 0.3 * logits.roll(1, -1), batch.tokens)
    credit, _ = algorithm.assign(algorithm.advantage(batch), now, batch, Drive(1.0, 0.0))
    count = totals(credit.mask)

    def seen(rows):
        stats = TokenStats(now.logp[rows].clone().requires_grad_(), now.entropy[rows], now.sensitivity[rows])
        loss, _ = algorithm.loss(stats, batch[rows], credit[rows], Drive(1.0, 0.0), count)
        return micro_batch_metrics(loss, stats.logp, batch[rows], now.sensitivity[rows], credit[rows], count)

    whole, parts = seen(ALL), [seen(slice(i, i + 2)) for i in range(0, B, 2)]
    assert whole.keys() == {PREDICTED, "ratio/mean", SQUARE}
    for name, value in whole.items():
        assert float(sum(part[name] for part in parts)) == pytest.approx(float(value), abs=1e-12)


@pytest.mark.invariance
def test_every_token_is_in_one_set_and_the_shares_add_to_one(build, softmax):
    _, batch = softmax
    batch = replace(batch, reward=torch.tensor([1.0, 0, 0, 1, 1, 1], dtype=torch.float64))
    advantages = build("algorithm=dapo").advantage(batch)
    seen = describe(batch, advantages)
    shares = {name: value for name, value in seen.items() if name.endswith("_share")}
    assert len(shares) == 5 and sum(shares.values()) == pytest.approx(1)
    assert shares["entropy/neutral_share"] == pytest.approx(8 / 17)
    weighted = sum(seen.get(f"entropy/{name}", 0) * shares[f"entropy/{name}_share"] for name in QUADRANTS)
    neutral = batch.old_entropy[3:][batch.mask[3:]].sum() / 17
    assert weighted + float(neutral) == pytest.approx(seen["entropy/mean"])


def test_the_sets_of_the_paper_s_fixture(build, paper):
    batch, _ = paper
    seen = describe(batch, build("algorithm=dapo").advantage(batch))
    assert seen["entropy/mean"] == pytest.approx(1.007143, abs=1e-6)
    sets = {  # the tokens of the fixture, by hand
        "positive_surprising": [0.10, 0.90, 2.60],
        "positive_expected": [0.30, 1.20, 1.60, 0.50, 0.20],
        "negative_surprising": [2.00, 0.40],
        "negative_expected": [0.80, 0.90, 1.10, 1.50],
    }
    for name, values in sets.items():
        assert seen[f"entropy/{name}_share"] == pytest.approx(len(values) / 14)
        assert seen[f"entropy/{name}"] == pytest.approx(sum(values) / len(values))
    assert seen["advantage/correct"] == pytest.approx(0.866024, abs=1e-6)
    assert seen["advantage/wrong"] == pytest.approx(-0.866024, abs=1e-6)


def test_the_effective_sample_size_of_the_sampler_is_over_what_it_said(paper):
    batch, _ = paper
    weight = torch.tensor([1.0, 1, 1, 3])
    said = torch.full_like(batch.old_logp, torch.nan)
    said[1, :4] = batch.old_logp[1, :4] - weight.log()
    seen = describe(replace(batch, sampler_logp=said), batch.old_logp * 0)
    assert seen["sampler/ess"] == pytest.approx(36 / (4 * 12))
    same = describe(replace(batch, sampler_logp=batch.old_logp), batch.old_logp * 0)
    assert same["sampler/ess"] == pytest.approx(1)


@pytest.mark.degenerate
def test_what_nobody_knows_or_nothing_is_of_is_left_out(build, paper):
    batch, _ = paper
    unknown = batch.sampler_logp * torch.nan
    same = replace(batch, reward=batch.reward * 0, correct=batch.reward < 0, sampler_logp=unknown)
    seen = describe(same, build("algorithm=dapo").advantage(same))
    assert "sampler/ess" not in seen and "advantage/correct" not in seen and seen["advantage/wrong"] == 0
    assert not any(f"entropy/{name}" in seen for name in QUADRANTS)
    assert seen["entropy/neutral_share"] == 1
    assert describe(replace(batch, mask=batch.mask & False), batch.old_logp * 0) == {}


@pytest.mark.degenerate
def test_a_token_of_unknown_entropy_is_in_no_set(paper):
    batch, _ = paper
    sets = quadrants(batch.old_logp * 0 + 1, batch.old_logp, batch.old_entropy * torch.nan, batch.mask)
    assert not any(tokens.any() for tokens in sets.values())


def test_each_way_of_touching_a_token_counts(paper):
    batch, _ = paper
    before = Credit.initial(torch.ones_like(batch.old_logp), batch.mask)
    first, second = (torch.arange(5).expand(4, 5) == place for place in (0, 1))
    sets = {"first": first & batch.mask, "second": second & batch.mask, "none": batch.mask & False}
    for after in (before.drop(first), before.add_kl(first, 1.0), before.scale(1.0 + first.double())):
        seen = affected(before, after)
        assert torch.equal(seen & batch.mask, first & batch.mask)
        values = {name: float(value) for name, value in shares(seen, sets, batch.mask).items()}
        assert values == pytest.approx({"": 4 / 14, "first": 1, "second": 0, "none": 0})


def test_steps_are_averaged_but_their_predictions_add_up():
    first = {PREDICTED: 0.1, "ratio/mean": 1.0, SQUARE: 1.0, "policy/loss": 2.0}
    second = {PREDICTED: torch.tensor(-0.3), "ratio/mean": 1.5, SQUARE: 3.0, "policy/loss": 4.0}
    seen = rollout_metrics([first, second])
    expected = {PREDICTED: -0.2, "ratio/mean": 1.25, "ratio/ess": (1 + 0.75) / 2, "policy/loss": 3.0}
    assert seen == pytest.approx(expected)


@pytest.mark.degenerate
def test_a_step_without_tokens_has_no_sample_size():
    assert "ratio/ess" not in rollout_metrics([{PREDICTED: 0.0, "ratio/mean": 0.0, SQUARE: 0.0}])


def precision(algorithm, batch, now):
    """As a rollout of one step logs it."""
    drive = algorithm.control.update(Vitals(1.0, 0.0))
    advantages = algorithm.advantage(batch)
    assigned = algorithm.assign_credit(advantages, now, batch, drive)
    step = algorithm.credit_metrics(assigned, advantages, now, batch, drive)
    step |= algorithm.precision_metrics(assigned, now, batch)
    return rollout_metrics([{**step, PREDICTED: 0.0, "ratio/mean": 1.0}])


RAISING = [(2, 0), (2, 2), (1, 0), (1, 1)]  # reinforced, these raise entropy; the others lower it
OPEN = ["algorithm.control.target=10", "algorithm.credit.stare.top=0.3"]


@pytest.mark.golden
@pytest.mark.parametrize(
    "recipe, overrides, expected",
    [
        ("stare", OPEN, 2 / 3),  # praised more: of (0, 1), (2, 0), (2, 2) the last two raise entropy
        ("stare_o4", OPEN, 1 / 2),  # blamed less: of (1, 1), (1, 3) the first
        ("stapo", [], 1 / 2),  # praised no more: of (0, 1), (2, 0) the first
        ("kl_cov", [], None),
    ],
)
def test_precision_is_the_share_of_affected_tokens_at_which_a_rule_raises_entropy(
    build, paper, recipe, overrides, expected
):
    batch, now = paper
    sensitivity = torch.ones_like(now.logp)
    sensitivity[tuple(zip(*RAISING, strict=True))] = -1.0
    algorithm = build(f"algorithm={recipe}", *overrides)
    found = precision(algorithm, batch, replace(now, sensitivity=sensitivity))
    name = next(iter(algorithm.credit))
    assert found.get(f"credit/{name}_precision") == (expected and pytest.approx(expected))
    assert f"credit/{name}_raised" not in found


def test_a_rule_that_touched_nothing_has_no_precision(build, paper):
    found = precision(build("algorithm=stare"), *paper)  # its gate is shut
    assert found["credit/stare"] == 0 and "credit/stare_precision" not in found


def test_quantiles_of_entropy_are_over_response_tokens_alone(build, paper):
    batch, _ = paper
    found = describe(batch, build("algorithm=grpo").advantage(batch))
    entropies = batch.old_entropy[batch.mask]
    for percent in range(10, 101, 10):
        assert found[f"entropy/q{percent}"] == pytest.approx(entropies.quantile(percent / 100).item())
    assert found["entropy/q100"] == 2.6  # 9 in the padding


@pytest.mark.golden
def test_entropy_is_told_by_turn_and_after_each_observation(softmax):
    _, batch = softmax
    one = describe(batch, batch.old_logp * 0)
    assert not [name for name in one if "turn" in name or "observation" in name]
    # row 0: a turn of two tokens, an observation, a turn of one; padding may hold any turn
    mask = batch.mask.clone()
    mask[0] = torch.tensor([1, 1, 0, 1]).bool()
    turn = torch.where(batch.mask, 0, 9)
    turn[0] = torch.tensor([0, 0, 0, 1])
    entropy = batch.old_entropy.clone()
    entropy[0] = torch.tensor([0.1, 0.2, 9.0, 0.4])
    turned = replace(batch, mask=mask, turn=turn, old_entropy=entropy)
    told = describe(turned, batch.old_logp * 0)
    assert told["entropy/turn_1"] == told["entropy/after_observation"] == pytest.approx(0.4)
    assert told["entropy/turn_0"] == pytest.approx(float(entropy[mask & (turn == 0)].mean()))
    assert "entropy/turn_2" not in told
