import math
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isentropic.batch import ScoredBatch

NO_CEILING = "algorithm.clipping.ceiling=inf"
GTPO = "algorithm=gtpo"
JOINT, RAW = "algorithm.advantage.norm=joint", "algorithm.advantage.norm=none"
POPULATION = "algorithm.advantage.unbiased=false"

SHAPED = [
    [1.050000, 1.066667, 1.063158, 1.100000, 1.100000],
    [-1.115789, -1.085714, -1.100000, -1.100000],
    [1.150000, 1.133333, 1.136842],
    [-1.084211, -1.114286],
]
SPLIT = [
    [-1.327034, -0.884689, -0.977814, 0, 0],
    [-1.172384, 1.060728, 0, 0],
    [1.327034, 0.884689, 0.977814],
    [1.172384, -1.060728],
]
SPLIT_POPULATION = [
    [-1.418656, -0.945771, -1.045326, 0, 0],
    [-1.284273, 1.161961, 0, 0],
    [1.418656, 0.945771, 1.045326],
    [1.284273, -1.161961],
]
TOGETHER = [
    [0.790009, 0.804756, 0.801651, 0.834250, 0.834250],
    [-1.126304, -1.099693, -1.112333, -1.112333],
    [0.878490, 0.863743, 0.866848],
    [-1.098362, -1.124973],
]


def table(rows):
    return torch.tensor([row + [0] * (5 - len(row)) for row in rows], dtype=torch.float64)


def answers(entropy, correct, group=None, width=None):
    """Rows of these entropies, with NaN beside."""
    width = width or max(map(len, entropy))
    rows = torch.tensor([row + [math.nan] * (width - len(row)) for row in entropy])
    mask, blank = ~rows.isnan(), rows * math.nan
    correct = torch.tensor(correct, dtype=torch.bool)
    group = torch.tensor(group or [0] * len(entropy))
    return ScoredBatch(mask.long(), mask, group, correct.float(), correct, ~correct, blank, blank, rows, blank, blank)


@pytest.mark.golden
@pytest.mark.parametrize(
    "settings, expected",
    [([RAW], SHAPED), ([], SPLIT), ([POPULATION], SPLIT_POPULATION), ([JOINT], TOGETHER)],
    ids=["shaped", "split", "split_population", "joint"],
)
def test_the_fixture(build, paper, settings, expected):
    batch, _ = paper
    advantages = build(GTPO, *settings).advantage(batch)
    torch.testing.assert_close(advantages, table(expected), atol=2e-6, rtol=0)


@pytest.mark.golden
@pytest.mark.parametrize(
    "settings, expected",
    [([], -0.014978), ([POPULATION], -0.017647), ([JOINT], 0.914846), ([JOINT, POPULATION], 0.949380)],
)
def test_the_loss_of_the_fixture(build, charge, paper, settings, expected):
    loss, _, _, _ = charge(build(GTPO, NO_CEILING, *settings), *paper)
    assert loss == pytest.approx(expected, abs=2e-6)


@pytest.mark.golden
def test_at_each_position_reward_is_conserved_where_base_and_bonus_make_one(build, paper):
    batch, _ = paper
    shaped = build(GTPO, RAW, "algorithm.advantage.base=0.9").advantage(batch)
    assert shaped[batch.correct].sum(0).tolist() == pytest.approx([2, 2, 2, 1, 1])
    assert shaped[~batch.correct].sum(0).tolist() == pytest.approx([-2, -2, -1, -1, 0])


@pytest.mark.golden
def test_another_implementations_example(build):
    batch = answers([[2.0, 4, 1], [3.0, 1], [4.0, 0.5, 3], [0.5, 4]], [1, 1, 0, 0])
    shaped = build(GTPO, RAW).advantage(batch)
    expected = [1.08, 1.16, 1.1, 1.12, 1.04, -1.0222, -1.1778, -1.1, -1.1778, -1.0222]
    assert shaped[batch.mask].tolist() == pytest.approx(expected, abs=5e-5)


@pytest.mark.golden
def test_split_normalisation_takes_the_praise_off_right_answers(build, paper):
    batch, _ = paper
    right = batch.mask & batch.correct[:, None]
    split, joint, raw = (build(GTPO, *norm).advantage(batch)[right] for norm in ([], [JOINT], [RAW]))
    assert abs(split.mean()) < 1e-6 and (split < 0).sum() == 3
    assert joint.mean().item() == pytest.approx(0.834250, abs=2e-6)
    assert raw.mean().item() == pytest.approx(1.1, abs=2e-6)


@pytest.mark.identity
def test_without_a_bonus_joint_normalisation_is_that_of_the_verdict(build, paper):
    batch, _ = paper
    advantages = build(GTPO, JOINT, "algorithm.advantage.bonus=0").advantage(batch)
    verdict = torch.where(batch.correct, 1.0, -1.0)[:, None].double().expand(4, 5)[batch.mask]
    torch.testing.assert_close(advantages[batch.mask], (verdict - verdict.mean()) / (verdict.std() + 1e-6))


@pytest.mark.identity
def test_a_clamp_to_one_value_and_no_bonus_are_the_same(build, paper):
    batch, _ = paper
    flat = [f"algorithm.advantage.clamp_{side}=0.25" for side in ("low", "high")]
    for norm in ([], [JOINT], [RAW]):
        clamped = build(GTPO, *norm, *flat, "algorithm.advantage.base=1").advantage(batch)
        plain = build(GTPO, *norm, "algorithm.advantage.base=1.1", "algorithm.advantage.bonus=0").advantage(batch)
        torch.testing.assert_close(clamped, plain, atol=1e-6, rtol=0)


@pytest.mark.golden
def test_the_clamp_bounds_what_a_token_can_claim(build):
    batch = answers([[0.01], [0.25], [9.0], [1.0]], [1, 1, 1, 0])
    clamp = ["algorithm.advantage.clamp_low=0.2", "algorithm.advantage.clamp_high=0.28"]
    shaped = build(GTPO, RAW, *clamp).advantage(batch)
    expected = [1 + 0.3 * h / 0.73 for h in (0.2, 0.25, 0.28)]
    assert shaped[:3, 0].tolist() == pytest.approx(expected)


@pytest.mark.golden
def test_the_floor_spreads_the_blame_that_a_certain_token_would_take_whole(build):
    batch = answers([[0.0], [1.0], [1.0]], [0, 0, 1])
    bare = build(GTPO, RAW).advantage(batch)[:2, 0].tolist()
    floored = build(GTPO, RAW, "algorithm.advantage.floor=0.25").advantage(batch)[:2, 0].tolist()
    assert bare == pytest.approx([-1.2, -1.0])
    assert floored == pytest.approx([-1.16, -1.04])


@pytest.mark.invariance
def test_groups_do_not_see_each_other_and_rows_may_lie_anywhere(build, paper):
    batch, _ = paper
    twice = batch[torch.tensor([0, 1, 2, 3, 3, 1, 0])]
    twice = replace(twice, group=torch.tensor([5, 5, 5, 5, 2, 2, 2]))
    order = torch.tensor([6, 2, 0, 4, 3, 5, 1])
    for norm in ([], [JOINT], [RAW]):
        estimate = build(GTPO, *norm).advantage
        torch.testing.assert_close(estimate(twice)[:4], estimate(batch))
        torch.testing.assert_close(estimate(twice[order]), estimate(twice)[order])


@pytest.mark.invariance
def test_positions_count_chosen_tokens_wherever_they_lie(build):
    entropy = [[2.0, 4, 1], [3.0, 1], [4.0, 0.5, 3], [0.5, 4]]
    nan = math.nan
    straight = answers(entropy, [1, 1, 0, 0])
    moved = answers(
        [[nan, 2.0, 4, nan, 1], [nan, nan, 3.0, nan, 1], [4.0, nan, nan, 0.5, 3], [0.5, 4]], [1, 1, 0, 0], width=7
    )
    for norm in ([], [JOINT], [RAW]):
        estimate = build(GTPO, *norm).advantage
        torch.testing.assert_close(estimate(moved)[moved.mask], estimate(straight)[straight.mask])


@pytest.mark.degenerate
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, -30.0])
def test_padding_may_hold_anything(build, paper, garbage):
    batch, _ = paper
    dirty = replace(batch, old_entropy=batch.old_entropy.masked_fill(~batch.mask, garbage))
    for norm in ([], [JOINT], [RAW]):
        assert torch.equal(build(GTPO, *norm).advantage(dirty), build(GTPO, *norm).advantage(batch))


@pytest.mark.degenerate
def test_equal_entropies_are_exactly_no_advantage_but_between_right_and_wrong(build, paper):
    batch, _ = paper
    same = replace(batch, old_entropy=torch.full((4, 5), 0.7))
    assert not build(GTPO).advantage(same).any()
    joint = build(GTPO, JOINT).advantage(same)
    assert (joint[batch.mask & batch.correct[:, None]] > 0.5).all()
    assert not build(GTPO, JOINT).advantage(replace(same, correct=batch.reward >= 0)).any()


@pytest.mark.degenerate
@pytest.mark.parametrize("norm", ["split", "joint", "none"])
@pytest.mark.parametrize("correct", [True, False])
def test_a_group_all_right_or_all_wrong_has_exactly_no_advantage(build, paper, correct, norm):
    batch, _ = paper
    estimate = build(GTPO, f"algorithm.advantage.norm={norm}").advantage
    assert not estimate(replace(batch, correct=torch.full((4,), correct))).any()
    two = replace(batch[torch.tensor([0, 1, 2, 3, 0, 2])], group=torch.tensor([0, 0, 0, 0, 1, 1]))
    torch.testing.assert_close(estimate(two)[:4], estimate(batch))
    assert not estimate(two)[4:].any()


@pytest.mark.degenerate
def test_one_token_is_no_spread_and_no_token_no_advantage(build, paper):
    batch, _ = paper
    first = batch.mask & (torch.arange(5) == 0) & (torch.arange(4) < 2)[:, None]  # one token on each side
    assert not build(GTPO).advantage(replace(batch, mask=first)).any()
    joint = build(GTPO, JOINT).advantage(replace(batch, mask=first))
    assert joint[:2, 0].tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)], abs=2e-6)
    for norm in ([], [JOINT], [RAW]):
        assert not build(GTPO, *norm).advantage(replace(batch, mask=batch.mask & False)).any()


@pytest.mark.degenerate
@pytest.mark.parametrize("entropy", [0.0, -1e-7, math.nan, 1e-30])
def test_entropies_that_say_nothing_leave_finite_advantages(build, paper, entropy):
    batch, _ = paper
    batch = replace(batch, old_entropy=torch.full((4, 5), entropy), correct=torch.tensor([True, False, True, False]))
    assert not build(GTPO).advantage(batch).any()
    assert (build(GTPO, JOINT).advantage(batch)[0] > 0).all()


@pytest.mark.degenerate
def test_one_unknown_entropy_is_its_tokens_own_affair(build, paper):
    batch, _ = paper
    unknown = batch.old_entropy.clone()
    unknown[2, 0] = math.nan
    shaped = build(GTPO, RAW).advantage(replace(batch, old_entropy=unknown))
    assert shaped[2, 0] == 1 and shaped[0, 0] == pytest.approx(1.1)
    torch.testing.assert_close(shaped[:, 1:], build(GTPO, RAW).advantage(batch)[:, 1:])


@pytest.mark.parametrize(
    "setting, sentence",
    [
        ("base=-1", "base=-1.* may not be negative"),
        ("bonus=nan", "bonus=nan.* may not be negative"),
        ("clamp_low=-0.1", "clamp_low=-0.1.* may be negative"),
        ("floor=-0.1", "floor=-0.1 are entropies"),
        ("clamp_high=-0.5", "clamp_high=-0.5.* may be negative"),
    ],
)
def test_settings_out_of_range_are_refused(build, setting, sentence):
    with pytest.raises(Exception, match=sentence):
        build(GTPO, f"algorithm.advantage.{setting}")


@pytest.mark.golden
def test_the_tables_of_the_page_are_those_of_its_script(capsys):
    docs = Path(__file__).parents[3] / "docs"
    runpy.run_path(str(docs / "gtpo.py"), run_name="__main__")
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert len(tables) == 2
    page = (docs / "gtpo.md").read_text()
    assert [table for table in tables if table not in page] == []
