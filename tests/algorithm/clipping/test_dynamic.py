from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isentropic.algorithm.clipping.dynamic import Dynamic
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats, Vitals

NO_DUAL = "algorithm.clipping.ceiling=inf"
GIVEN = {"low": 0.2, "high": 0.2, "ceiling": 10, "high_slope": -0.25, "high_intercept": 0.5, "low_slope": -0.13}
GIVEN |= {"low_intercept": 0.3, "closed_form": False}

# strategy, step of 400: room above at p = .0015, .7, .92; room below at p = .5, .22, .0015; loss
RARE, HALF, NONE = [0.499625, 0.325, 0.27], [0.349812, 0.2625, 0.235], [0.2, 0.2, 0.2]
FIRST, MIDDLE = [0.234825, 0.271043, 0.299306], [0.2175, 0.2357, 0.249902]
SCHEDULES = [
    ("id", 0, RARE, NONE, 0.582813),
    ("id", 100, HALF, NONE, 0.586680),
    ("id", 200, NONE, NONE, 0.593639),
    ("id", 201, NONE, FIRST, 0.591485),
    ("id", 300, NONE, MIDDLE, 0.592556),
    ("id", 400, NONE, NONE, 0.593639),
    ("did", 0, NONE, NONE, 0.593639),
    ("did", 100, HALF, NONE, 0.586680),
    ("did", 200, RARE, NONE, 0.582813),
    ("did", 201, RARE, FIRST, 0.580659),
    ("did", 300, RARE, MIDDLE, 0.581731),
    ("did", 400, RARE, NONE, 0.582813),
]


def rooms(algorithm, batch, now, drive):
    """How far each token's ratio may rise, and fall."""
    bounds = algorithm.clipping(now, batch, drive)
    high, low = (torch.as_tensor(x).expand_as(now.logp) for x in (bounds.high, bounds.low))
    return high - 1, 1 - low


@pytest.mark.golden
@pytest.mark.parametrize("strategy, k, above, below, loss", SCHEDULES)
def test_the_papers_schedules(build, charge, paper, strategy, k, above, below, loss):
    batch, now = paper
    algorithm = build(f"algorithm=flexible_{strategy}", NO_DUAL)
    high, low = rooms(algorithm, batch, now, algorithm.control.update(Vitals(1.0, k / 400)))
    assert [high[0, 1].item(), high[0, 2].item(), high[0, 0].item()] == pytest.approx(above, abs=2e-6)
    assert [low[1, 0].item(), low[3, 1].item(), low[1, 3].item()] == pytest.approx(below, abs=2e-6)
    assert charge(algorithm, batch, now, progress=k / 400)[0] == pytest.approx(loss, abs=2e-6)


@pytest.mark.golden
def test_rooms_of_every_token(build, paper):
    batch, now = paper
    high, low = rooms(build("algorithm=flexible_od"), batch, now, Drive(up=1, down=1))
    above = [0.27, 0.499625, 0.325, 0.45, 0.3, 0.375, 0.485, 0.35, 0.499625, 0.49975, 0.2625, 0.499875, 0.375, 0.445]
    below = [0.1804, 0.299805, 0.209, 0.274, 0.196, 0.235, 0.2922, 0.222, 0.299805, 0.29987, 0.1765, 0.299935]
    assert high[batch.mask].tolist() == pytest.approx(above, abs=1e-6)
    assert low[batch.mask].tolist() == pytest.approx([*below, 0.235, 0.2714], abs=1e-6)


@pytest.mark.golden
@pytest.mark.parametrize("start, state, loss", [("null", 0, 0.591474), (10, 1, 0.582813)])
def test_the_papers_oscillation(build, charge, paper, start, state, loss):
    found, _, metrics, _ = charge(build("algorithm=flexible_od", NO_DUAL, f"algorithm.control.start={start}"), *paper)
    assert found == pytest.approx(loss, abs=2e-6)
    assert (metrics["control/up"], metrics["control/down"]) == (state, 1 - state)


@pytest.mark.golden
def test_the_bounds_carry_no_gradient(build, charge, paper):
    batch, now = paper
    _, grad, metrics, credit = charge(build("algorithm=flexible_id", NO_DUAL), batch, now)
    assert grad[0, 2] == 0 and metrics["clipping/clipped_high"] > 0
    # What gradient would do through the bound of this token of a right answer: push it down.
    logp = now.logp[0, 2].clone().requires_grad_()
    (-credit.advantages[0, 2] * (1.5 - 0.25 * logp.exp()) / 14).backward()
    assert logp.grad.item() == pytest.approx(0.010825, abs=2e-6)


@pytest.mark.golden
@pytest.mark.parametrize("strategy, k", [row[:2] for row in SCHEDULES])
def test_the_closed_form_clips_the_same_tokens(build, charge, paper, strategy, k):
    batch, now = paper
    sides, gradients = [], []
    for closed in "false", "true":
        algorithm = build(f"algorithm=flexible_{strategy}", NO_DUAL, f"algorithm.clipping.closed_form={closed}")
        _, grad, _, credit = charge(algorithm, batch, now, progress=k / 400)
        bounds = algorithm.clipping(now, batch, algorithm.control.update(Vitals(1.0, k / 400)))
        found = bounds.clipped((now.logp - batch.old_logp).exp(), credit)
        sides.append({side: (tokens & batch.mask).tolist() for side, tokens in found.items()})
        gradients.append(grad)
    assert sides[0] == sides[1]
    assert any(map(any, sides[0]["high"])) and any(map(any, sides[0]["low"]))
    torch.testing.assert_close(*gradients)


@given(st.floats(1e-4, 0.999), st.floats(1e-4, 0.999), st.floats(0, 1), st.floats(0, 1))
def test_the_closed_form_clips_the_same_token_whatever_its_probabilities(old, new, up, down):
    ratio = torch.tensor([[new / old]], dtype=torch.float64)
    for sign in 1.0, -1.0:
        credit = Credit.initial(torch.full_like(ratio, sign), torch.ones_like(ratio, dtype=torch.bool))
        sides = []
        for closed in False, True:
            batch, now = tokens(old, new)
            bounds = Dynamic(**GIVEN | {"closed_form": closed})(now, batch, Drive(up, down))
            if min((ratio - bounds.low).abs(), (ratio - bounds.high).abs()) < 1e-9:
                return  # on the bound itself, rounding decides
            sides.append({side: bool(found) for side, found in bounds.clipped(ratio, credit).items()})
        assert sides[0] == sides[1]


def tokens(old, new):
    x, flag = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, dtype=torch.bool)
    batch = ScoredBatch(x.long(), x == 0, flag.long(), x[0], flag, flag, x, x + old, x, x, x)
    return replace(batch, old_logp=(x + old).log()), TokenStats((x + new).log(), x, x)


@pytest.mark.identity
@pytest.mark.parametrize("closed", ["false", "true"])
def test_without_a_drive_it_is_fixed(build, charge, paper, closed):
    idle = ["algorithm/control=constant", "algorithm.control.up=0"]
    for same in [], ["algorithm.clipping.high=0.28"]:
        fixed = build("algorithm=dapo", "algorithm.clipping.high=0.2", NO_DUAL, *same)
        dynamic = build("algorithm=flexible_id", f"algorithm.clipping.closed_form={closed}", NO_DUAL, *idle, *same)
        expected, found = charge(fixed, *paper), charge(dynamic, *paper)
        assert found[0] == pytest.approx(expected[0], abs=1e-12)
        torch.testing.assert_close(found[1], expected[1])


@pytest.mark.identity
def test_a_drive_above_one_counts_as_one(build, charge, paper):
    found = [
        charge(build("algorithm=flexible_id", "algorithm/control=constant", f"algorithm.control.up={up}"), *paper)
        for up in (1, 5)
    ]
    assert found[0][0] == found[1][0]
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.identity
def test_with_one_update_nothing_is_clipped(build, charge, paper):
    batch, now = paper
    _, _, metrics, _ = charge(build("algorithm=flexible_od"), batch, replace(now, logp=batch.old_logp))
    assert [metrics[f"clipping/clipped_{side}"] for side in ("low", "high", "ceiling")] == [0, 0, 0]


@pytest.mark.degenerate
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), float("-inf")])
def test_bounds_are_finite_in_the_padding(paper, garbage):
    batch, now = paper
    batch = replace(batch, old_logp=batch.old_logp.masked_fill(~batch.mask, garbage))
    now = replace(now, logp=now.logp.masked_fill(~batch.mask, garbage))
    for closed in False, True:
        bounds = Dynamic(**GIVEN | {"closed_form": closed})(now, batch, Drive(1, 1))
        assert bounds.low.isfinite().all() and bounds.high.isfinite().all()


@pytest.mark.parametrize(
    "wrong, named",
    [
        ({"low": 1.5}, "low="),
        ({"ceiling": 0.5}, "ceiling="),
        ({"high_slope": -0.6}, "high_slope=-0.6 and high_intercept=0.5"),
        ({"low_intercept": -0.1}, "low_intercept=-0.1"),
        ({"low_intercept": 1.0}, "less than 1 of room"),
        ({"high_slope": 1.0}, "high_slope=1.0 must be below 1"),
    ],
)
def test_room_that_some_probability_turns_around_is_refused(wrong, named):
    with pytest.raises(ValueError, match=named):
        Dynamic(**GIVEN | wrong)
