from dataclasses import replace
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.algorithm.advantage.grpo import Grpo
from isentropic.algorithm.credit.stare import Stare
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats, Vitals
from isentropic.reductions import top_fraction

OPEN = "algorithm.control.target=1.2"  # the fixture's entropy is 1.007143
WIDE = "algorithm.credit.stare.top=0.25"
NO_DUAL = "algorithm.clipping.ceiling=inf"
APART = "algorithm.scope=micro_batch"
VERL = "algorithm/aggregation=micro_token_mean"
HALVES = [0, 1], [2, 3]


def rule(top=0.25, boost=1.0, damp=1.0, good_rest=1.0, bad_rest=1.0):
    return Stare(top, boost, damp, good_rest, bad_rest)


@pytest.fixture
def credit(paper):
    batch, _ = paper
    return Credit.initial(Grpo(divide_by_std=True)(batch), batch.mask)


def weights(rule, credit, paper, up=1.0):
    batch, now = paper
    scaled = rule(credit, now, batch, Drive(up=up))
    assert torch.equal(scaled.mask, credit.mask)
    return torch.where(credit.mask, scaled.advantages / credit.advantages, 1)


def advantages(algorithm, batch):
    return torch.where(batch.mask, algorithm.advantage(batch), 1)


@pytest.mark.golden
@pytest.mark.parametrize(
    "overrides, boosted, damped, mean, loss, without_dual_clip",
    [
        (["algorithm=stare"], [], [], 1, 0.430950, 0.585597),
        (["algorithm=stare_c2"], [], [], 1, 0.430950, 0.585597),
        (["algorithm=stare", OPEN], [[2, 2]], [], 1.007143, 0.425795, 0.580442),
        (["algorithm=stare_c2", OPEN], [[2, 2]], [[1, 3]], 1, 0.363936, 0.503119),
        (["algorithm=stare", OPEN, WIDE], [[2, 0], [2, 2]], [], 1.014286, 0.418922, 0.573569),
        (["algorithm=stare_c2", OPEN, WIDE], [[2, 0], [2, 2]], [[1, 1], [1, 3]], 1, 0.349640, 0.488822),
    ],
)
def test_worked_out_by_hand(build, charge, paper, overrides, boosted, damped, mean, loss, without_dual_clip):
    batch, _ = paper
    found, _, _, credit = charge(build(*overrides), *paper)
    omega = credit.advantages / advantages(build(*overrides), batch)
    assert (omega > 1.05).nonzero().tolist() == boosted
    assert ((omega < 0.95) & batch.mask).nonzero().tolist() == damped
    assert omega[batch.mask].mean().item() == pytest.approx(mean, abs=1e-6)
    assert found == pytest.approx(loss, abs=2e-6)
    assert charge(build(*overrides, NO_DUAL), *paper)[0] == pytest.approx(without_dual_clip, abs=2e-6)


@pytest.mark.golden
def test_the_gradient_worked_out_by_hand(build, charge, paper):
    expected = charge(build("algorithm=dapo"), *paper)[1]
    assert expected[1, 3] == 0  # dual clip
    expected[2, 0], expected[2, 2], expected[1, 1] = -0.075605, -0.056704, 0.066808
    c2 = charge(build("algorithm=stare_c2", OPEN, WIDE), *paper)[1]
    torch.testing.assert_close(c2, expected, atol=2e-6, rtol=0)


@pytest.mark.golden
@pytest.mark.parametrize(
    "recipe, boosted, damped, loss, as_verl_accumulates",
    [
        ("stare", [[0, 1], [0, 3], [2, 2]], [], 0.413939, 0.287397),
        ("stare_c2", [[0, 1], [0, 3], [2, 2]], [[1, 3], [3, 1]], 0.346636, 0.231664),
        ("dapo", [], [], 0.430950, 0.303835),
    ],
)
def test_ranked_within_micro_batches_as_released_code_does(
    build, charge, paper, recipe, boosted, damped, loss, as_verl_accumulates
):
    overrides = [f"algorithm={recipe}", APART, *([OPEN, WIDE] if recipe != "dapo" else [])]
    found, _, _, credit = charge(build(*overrides), *paper, *HALVES)
    omega = credit.advantages / advantages(build(*overrides), paper[0])
    assert (omega > 1.05).nonzero().tolist() == boosted
    assert ((omega < 0.95) & credit.mask).nonzero().tolist() == damped
    assert found == pytest.approx(loss, abs=2e-6)
    assert charge(build(*overrides, VERL), *paper, *HALVES)[0] == pytest.approx(as_verl_accumulates, abs=2e-6)


@pytest.mark.golden
def test_padding_would_come_first_and_does_not(credit, paper):
    batch, now = paper
    everywhere = (credit.advantages.amax(1, keepdim=True) > 0).expand_as(batch.mask)
    assert top_fraction(-now.logp, everywhere, 0.25).nonzero().tolist() == [[2, 2], [2, 3], [2, 4]]
    assert (weights(rule(boost=1.1), credit, paper) > 1.05).nonzero().tolist() == [[2, 0], [2, 2]]


@pytest.mark.golden
def test_the_divisor_is_not_the_sum_of_weights(build, charge, paper):
    algorithm = build("algorithm=stare", OPEN, WIDE)
    loss, _, _, credit = charge(algorithm, *paper)
    omega = credit.advantages / advantages(algorithm, paper[0])
    assert loss * 14 / omega[credit.mask].sum().item() == pytest.approx(0.413022, abs=2e-6)
    assert loss == pytest.approx(0.418922, abs=2e-6)


@pytest.mark.golden
@pytest.mark.parametrize("place", [1, 2])
def test_an_observation_in_the_middle_of_an_answer_does_not_move_the_loss(build, charge, paper, bigrams, place):
    algorithm = build("algorithm=stare", OPEN, WIDE)
    batch, now = [bigrams.holed(record, place, 3, -30.0) for record in paper]
    hole = slice(place, place + 3)
    now.entropy[:, hole], batch.old_entropy[:, hole] = 9, 9
    assert charge(algorithm, batch, now)[0] == pytest.approx(0.418922, abs=2e-6)


@pytest.mark.golden
@pytest.mark.controller
def test_the_papers_adaptive_weights_from_its_recipe(build, credit, paper):
    algorithm = build("algorithm=stare_adaptive", WIDE)
    stare, gate, seen = algorithm.credit["stare"], algorithm.control, []
    for entropy in 0.5, 0.29, 0.30, float("nan"), 0.10:
        drive = gate.update(Vitals(entropy, 0.0))
        stored = [round(1 + gate.strength * (w - 1), 9) for w in (stare.boost, stare.damp)]
        found = weights(stare, credit, paper, drive.up)
        used = [round(found[2, 0].item(), 9), round(found[1, 1].item(), 9)]
        assert used == (stored if gate.open else [1, 1])
        seen.append((int(gate.open), *stored))
    assert seen == [(0, 1.09, 0.91), (1, 1.10, 0.90), (0, 1.10, 0.90), (0, 1.10, 0.90), (1, 1.11, 0.89)]


@pytest.mark.controller
def test_adaptive_weights_end_at_their_limits(build, credit, paper):
    algorithm = build("algorithm=stare_adaptive", WIDE)
    for _ in range(60):
        drive = algorithm.control.update(Vitals(0.1, 0.0))
    found = weights(algorithm.credit["stare"], credit, paper, drive.up)
    assert (found[2, 0].item(), found[1, 1].item()) == pytest.approx((1.5, 0.5))


VARIANTS = {"boost": 1.1, "damp": 0.9, "good_rest": 0.9, "bad_rest": 1.1}  # O1, O4, and O2 and O3
SETS = {
    "boost": [(2, 0), (2, 2)],
    "damp": [(1, 1), (1, 3)],
    "good_rest": [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (2, 1)],
    "bad_rest": [(1, 0), (1, 2), (3, 0), (3, 1)],
}


@pytest.mark.golden
@pytest.mark.parametrize("names", [c for n in (1, 2, 4) for c in combinations(VARIANTS, n)], ids="+".join)
def test_every_variant_is_an_override_and_weighs_its_own_sets(build, charge, paper, names):
    overrides = ["algorithm=stare", OPEN, WIDE, "algorithm.credit.stare.boost=1"]
    algorithm = build(*overrides, *[f"algorithm.credit.stare.{name}={VARIANTS[name]}" for name in names])
    _, gradient, _, credit = charge(algorithm, *paper)
    expected = torch.ones_like(gradient)
    for name in names:
        expected[tuple(zip(*SETS[name], strict=True))] = VARIANTS[name]
    torch.testing.assert_close(credit.advantages / advantages(algorithm, paper[0]) + 1 - credit.mask.double(), expected)
    torch.testing.assert_close(gradient, charge(build("algorithm=dapo"), *paper)[1] * expected)


@pytest.mark.identity
@pytest.mark.parametrize(
    "overrides",
    [
        ["algorithm=stare_c2"],
        ["algorithm=stare_c2", "algorithm/control=constant", "algorithm.control.up=0"],
        ["algorithm=stare", OPEN, "algorithm.credit.stare.boost=1"],
        ["algorithm=stare", OPEN, "algorithm.credit.stare.top=0"],
    ],
)
def test_without_force_it_is_dapo(build, charge, paper, overrides):
    loss, grad, _, _ = charge(build("algorithm=dapo"), *paper)
    stare_loss, stare_grad, _, _ = charge(build(*overrides), *paper)
    assert stare_loss == loss
    assert torch.equal(stare_grad, grad)


@pytest.mark.identity
def test_equal_weights_of_all_sets_scale_the_loss(build, charge, paper):
    equal = [f"algorithm.credit.stare.{name}=1.5" for name in VARIANTS]
    loss, grad, _, _ = charge(build("algorithm=stare", OPEN, *equal), *paper)
    base_loss, base_grad, _, _ = charge(build("algorithm=dapo"), *paper)
    assert loss == pytest.approx(1.5 * base_loss)
    torch.testing.assert_close(grad, 1.5 * base_grad)


@pytest.mark.invariance
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**20), st.floats(0, 1), st.lists(st.floats(0, 3), min_size=4, max_size=4), st.floats(0, 6))
def test_every_token_has_the_weight_of_its_set_and_no_other(seed, top, four, up):
    draw = torch.Generator().manual_seed(seed)
    logp = -torch.rand(6, 5, generator=draw)
    praise = torch.randint(-1, 2, (6, 1), generator=draw).expand(6, 5).float().clone()
    mask = torch.rand(6, 5, generator=draw) < 0.7
    now = TokenStats(*[logp.masked_fill(~mask, -torch.inf)] * 3)
    flags = torch.zeros(6, dtype=torch.bool)
    batch = ScoredBatch(mask.long(), mask, flags.long(), flags.float(), flags, flags, *[logp] * 5)
    scaled = Stare(top, *four)(Credit.initial(praise, mask), now, batch, Drive(up=up)).advantages
    for sign, surprising, rest in ((1, four[0], four[2]), (-1, four[1], four[3])):
        tokens = mask & (praise == sign)
        chosen = top_fraction(-logp, tokens, top)
        for where, weight in ((chosen, surprising), (tokens & ~chosen, rest)):
            expected = torch.full((int(where.sum()),), sign * max(1 + up * (weight - 1), 0.0))
            torch.testing.assert_close(scaled[where], expected)


def test_weights_follow_the_drive(credit, paper):
    four = rule(boost=1.1, damp=0.9, good_rest=0.8, bad_rest=1.2)
    for up, *expected in ((0, 1, 1, 1, 1), (0.9, 1.09, 0.91, 0.82, 1.18), (5, 1.5, 0.5, 0, 2), (20, 3, 0, 0, 5)):
        found = weights(four, credit, paper, float(up))
        assert [found[spot].item() for spot in ((2, 0), (1, 1), (0, 0), (3, 0))] == pytest.approx(expected, abs=1e-12)


def test_tokens_without_advantage_are_no_candidates(credit, paper):
    silent = replace(credit, advantages=torch.where(torch.arange(4)[:, None] == 2, 0, credit.advantages))
    scaled = rule(0.1, boost=1.1, good_rest=2.0)(silent, paper[1], paper[0], Drive(up=1)).advantages
    assert (scaled[2] == 0).all()
    assert (scaled[0] / silent.advantages[0]).tolist() == pytest.approx([2, 1.1, 2, 2, 2])


def test_dropped_tokens_are_no_candidates(credit, paper):
    surprising = torch.zeros_like(credit.mask)
    surprising[2, 2] = True
    found = weights(rule(0.1, boost=1.1), credit.drop(surprising), paper)
    assert (found > 1.05).nonzero().tolist() == [[2, 0]]


@pytest.mark.degenerate
def test_an_impossible_token_comes_first_and_one_that_is_no_number_never(credit, paper):
    batch, now = paper
    logp = now.logp.clone()
    logp[0, 0], logp[2, 2] = -torch.inf, torch.nan
    found = weights(rule(0.1, boost=1.1), credit, (batch, replace(now, logp=logp)))
    assert (found > 1.05).nonzero().tolist() == [[0, 0]]


@pytest.mark.degenerate
def test_equally_surprising_tokens_count_the_same(credit, paper):
    batch, now = paper
    even = (batch, replace(now, logp=torch.zeros_like(now.logp)))
    found = weights(rule(0.1, boost=1.1, damp=0.9), credit, even)
    torch.testing.assert_close(found[[0, 2]][credit.mask[[0, 2]]], torch.full((8,), 1.1, dtype=torch.float64))
    torch.testing.assert_close(found[[1, 3]][credit.mask[[1, 3]]], torch.full((6,), 0.9, dtype=torch.float64))


@pytest.mark.parametrize(
    "values, named",
    [
        ((1.5, 1.1, 1, 1, 1), "top=1.5"),
        ((0.1, -1, 1, 1, 1), "boost=-1"),
        ((0.1, 1.1, -0.1, 1, 1), "damp=-0.1"),
        ((0.1, 1, 1, -2, 1), "good_rest=-2"),
        ((0.1, 1, 1, 1, float("nan")), "bad_rest=nan"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values, named):
    with pytest.raises(ValueError, match=f"credit.stare.{named}"):
        Stare(*values)
