from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.advantage.grpo import Grpo
from isentropic.algorithm.credit.stapo import Stapo
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats
from isentropic.reductions import quantile, totals

NO_DUAL = "algorithm.clipping.ceiling=inf"


@pytest.fixture
def credit(paper):
    batch, _ = paper
    return Credit.initial(Grpo(divide_by_std=True)(batch), batch.mask)


def silenced(credit, batch):
    return (batch.mask & ~credit.mask).nonzero().tolist()


@pytest.mark.golden
@pytest.mark.parametrize(
    "overrides, masked, without_dual_clip, loss",
    [
        (["algorithm=just_rl"], [], 0.585597, 0.430950),
        (["algorithm=stapo"], [[0, 1], [2, 0]], 0.853595, 0.673173),
        (["algorithm=stapo", "algorithm.credit.stapo.interpolation=lower"], [[0, 1]], 0.713915, None),
        (["algorithm=stapo", "algorithm.credit.stapo.interpolation=nearest"], [[0, 1], [2, 0]], 0.853595, 0.673173),
        (["algorithm=stapo", "algorithm.credit.stapo.interpolation=higher"], [[0, 1], [2, 0]], 0.853595, 0.673173),
        (["algorithm=stapo_v1"], [[0, 1]], 0.713915, None),
    ],
)
def test_worked_out_by_hand(build, charge, paper, overrides, masked, without_dual_clip, loss):
    found, _, _, credit = charge(build(*overrides, NO_DUAL), *paper)
    assert silenced(credit, paper[0]) == masked
    assert found == pytest.approx(without_dual_clip, abs=2e-6)
    if loss is not None:
        assert charge(build(*overrides), *paper)[0] == pytest.approx(loss, abs=2e-6)


@pytest.mark.golden
def test_the_gradient_worked_out_by_hand(build, charge, paper):
    gradient = charge(build("algorithm=stapo", NO_DUAL), *paper)[1]
    expected = {(0, 1): 0, (2, 0): 0, (0, 0): -0.073772, (0, 3): -0.048112, (1, 1): 0.086602, (3, 0): 0.090211}
    assert {spot: gradient[spot].item() for spot in expected} == pytest.approx(expected, abs=2e-6)


@pytest.mark.golden
def test_the_divisor_counts_the_tokens_that_are_kept(build, charge, paper):
    batch, now = paper
    algorithm = build("algorithm=stapo", NO_DUAL)
    loss, _, _, credit = charge(algorithm, batch, now)
    assert loss == pytest.approx(0.853595, abs=2e-6)
    wrong = algorithm.loss(now, batch, credit, Drive(), totals(batch.mask))[0].item()
    assert wrong == pytest.approx(0.731653, abs=2e-6)


THRESHOLDS = [("all cells", 9.0, 0.996802), ("good answers", 1.725, 0.713915), ("rare", 2.15, 0.853595)]


@pytest.mark.golden
@pytest.mark.parametrize("name, threshold, loss", THRESHOLDS)
def test_other_populations_have_other_thresholds(build, charge, paper, credit, name, threshold, loss):
    batch, now = paper
    good = credit.mask & (credit.advantages > 0)
    rare = good & (now.logp < torch.tensor(0.002, dtype=torch.float64).log())
    of = {"all cells": torch.ones_like(good), "good answers": good, "rare": rare}[name]
    assert quantile(now.entropy, of, 0.75, "linear").item() == pytest.approx(threshold, abs=1e-9)
    dropped = credit.drop(rare & (now.entropy < threshold))
    just_rl = build("algorithm=just_rl", NO_DUAL)
    found = just_rl.loss(now, batch, dropped, Drive(), totals(dropped.mask))[0].item()
    assert found == pytest.approx(loss, abs=2e-6)


@pytest.mark.golden
def test_a_rare_token_of_a_bad_answer_is_kept(build, charge, paper):
    _, _, _, credit = charge(build("algorithm=stapo", "algorithm.credit.stapo.q=1"), *paper)
    assert paper[1].logp[1, 3].exp() < 0.002
    assert silenced(credit, paper[0]) == [[0, 1], [2, 0]]


@pytest.mark.identity
def test_where_no_token_is_rare_it_is_just_rl(build, charge, paper):
    base = charge(build("algorithm=just_rl"), *paper)
    found = charge(build("algorithm=stapo", "algorithm.credit.stapo.probability=1e-9"), *paper)
    assert found[0] == base[0]
    assert torch.equal(found[1], base[1])


@pytest.mark.degenerate
def test_of_equal_entropies_none_is_below_the_threshold(build, charge, paper):
    batch, now = paper
    even = replace(now, entropy=torch.full_like(now.entropy, 0.3))
    assert silenced(charge(build("algorithm=stapo"), batch, even)[3], batch) == []


@pytest.mark.degenerate
def test_one_rare_token_is_not_below_itself(build, charge, paper):
    batch, now = paper
    assert silenced(charge(build("algorithm=stapo"), batch[:2], now[:2])[3], batch[:2]) == []


@pytest.mark.degenerate
def test_an_unknown_entropy_neither_counts_nor_is_dropped(build, charge, paper):
    batch, now = paper
    entropy = now.entropy.clone()
    entropy[0, 1] = torch.nan
    _, _, _, credit = charge(build("algorithm=stapo"), batch, replace(now, entropy=entropy))
    assert silenced(credit, batch) == [[2, 0]]


def test_a_token_just_above_the_probability_is_not_rare():
    rule = Stapo(0.002, 1.0, "linear", "rare")
    logp = torch.tensor([[0.0019, 0.00201, 0.0001]]).log()
    mask = torch.ones_like(logp) > 0
    now = TokenStats(logp, torch.tensor([[0.5, 0.1, 1.0]]), logp)
    row = torch.zeros(1)
    batch = ScoredBatch(mask.long(), mask, row.long(), row, row > 0, row > 0, *[logp] * 5)
    kept = rule(Credit.initial(torch.ones_like(logp), mask), now, batch, Drive()).mask
    assert kept.tolist() == [[False, True, True]]


@pytest.mark.parametrize(
    "values, named",
    [
        ((0, 0.75, "linear", "rare"), "probability=0"),
        ((1.5, 0.75, "linear", "rare"), "probability=1.5"),
        ((0.002, -0.1, "linear", "rare"), "q=-0.1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values, named):
    with pytest.raises(ValueError, match=f"credit.stapo.{named}"):
        Stapo(*values)


@pytest.mark.parametrize(
    "named, known", [("interpolation", "linear, lower, higher, nearest"), ("population", "rare, all")]
)
def test_unknown_names_are_refused(build, named, known):
    unchecked = object.__new__(Stapo)  # as without the shape checks of tests, which refuse it in other words
    vars(unchecked).update(vars(build("algorithm=stapo").credit["stapo"]) | {named: "midpoint"})
    with pytest.raises(ValueError, match=f"credit.stapo.{named}=midpoint must be one of {known}"):
        unchecked.__post_init__()
