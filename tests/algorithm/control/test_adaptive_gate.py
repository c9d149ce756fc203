import pytest

from isentropic.algorithm.control.adaptive_gate import AdaptiveGate
from isentropic.algorithm.control.gate import Gate
from isentropic.batch import Drive, Vitals

NAN = float("nan")


def gate(boost=1.1, damp=0.9, **changed):
    alpha = {"boost_step": 0.01, "boost_most": 1.5, "damp_step": 0.01, "damp_least": 0.5}
    return AdaptiveGate(**{"target": 0.3, "boost": boost, "damp": damp} | alpha | changed)


def weights(control, *readings):
    """W and M after each reading."""
    found = []
    for entropy in readings:
        control.update(Vitals(entropy, 0.0))
        w, m = 1 + control.strength * (control.boost - 1), 1 + control.strength_blamed * (control.damp - 1)
        found.append((round(w, 9), round(m, 9)))
    return found


@pytest.mark.golden
@pytest.mark.parametrize("boost, damp", [(1.1, 0.9), (1.05, 0.95), (1.3, 0.9), (1.1, 0.6), (1.4, 0.8)])
def test_steps_are_those_of_the_weights_wherever_these_start(boost, damp):
    w, m = boost, damp
    expected = []
    for sign in (-1, 1, 0, 0, 1):
        w, m = min(max(w + 0.01 * sign, 1), 1.5), min(max(m - 0.01 * sign, 0.5), 1)
        expected.append((pytest.approx(w), pytest.approx(m)))
    assert weights(gate(boost, damp), 0.5, 0.29, 0.30, NAN, 0.10) == expected


@pytest.mark.golden
@pytest.mark.parametrize("boost, damp", [(1.1, 0.9), (1.05, 0.95), (1.4, 0.7), (3.0, 0.2)])
def test_limits_are_those_of_the_weights_wherever_these_start(boost, damp):
    control = gate(boost, damp)
    assert weights(control, *[0.1] * 60)[-1] == pytest.approx((1.5, 0.5))
    assert weights(control, *[0.9] * 60)[-1] == pytest.approx((1, 1))


@pytest.mark.identity
def test_with_the_papers_weights_it_is_the_gate_with_one_strength_to_the_last_bit():
    paper, one = gate(), Gate(target=0.3, step=0.1, ceiling=5)
    for entropy in (0.5, 0.29, 0.30, NAN, 0.10, *[0.1] * 70, *[0.4] * 30, 0.2):
        drive, up = paper.update(Vitals(entropy, 0.0)), one.update(Vitals(entropy, 0.0)).up
        assert (drive.up, drive.up_in_bad) == (up, up)


@pytest.mark.parametrize("overrides", [["boost=1.4"], ["boost=1.05", "damp=0.95"], ["damp=0.5"]])
def test_the_recipe_starts_at_the_weights_of_its_credit_rule(build, overrides):
    algorithm = build("algorithm=stare_adaptive", *[f"algorithm.credit.stare.{one}" for one in overrides])
    control, rule = algorithm.control, algorithm.credit["stare"]
    assert (control.boost, control.damp) == (rule.boost, rule.damp)
    assert (control.boost_step, control.boost_most, control.damp_step, control.damp_least) == (0.01, 1.5, 0.01, 0.5)


def test_a_weight_of_one_is_none_and_stays():
    control = gate(boost=1.0)
    assert weights(control, *[0.1] * 10)[-1] == pytest.approx((1, 0.8))


def test_a_resumed_gate_goes_on_where_it_was():
    control, resumed = gate(), gate()
    weights(control, 0.1, 0.1, 0.5)
    resumed.load_state_dict(control.state_dict())
    assert resumed.update(Vitals(NAN, 0.0)) == control.update(Vitals(NAN, 0.0)) == Drive()
    assert weights(resumed, 0.2) == weights(control, 0.2)


@pytest.mark.parametrize(
    "changed, named",
    [
        ({"target": 0}, "target=0"),
        ({"boost_step": -1}, "boost_step=-1"),
        ({"boost": 0.9}, "boost=0.9"),
        ({"boost_most": 0.5}, "boost_most=0.5"),
        ({"damp": 1.1}, "damp=1.1"),
        ({"damp_least": -0.1}, "damp_least=-0.1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed, named):
    with pytest.raises(ValueError, match=rf"control\..*{named}"):
        gate(**changed)
