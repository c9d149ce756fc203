import pytest

from isentropic.algorithm.control.adaptive_coefficient import AdaptiveCoefficient
from isentropic.batch import Vitals

NAN = float("nan")
RULE = {"target": 0.2, "start": 0.0, "step": 0.005, "ceiling": 0.012}


def run(control, *readings):
    return [round(control.update(Vitals(h, 0.0)).up, 9) for h in readings]


@pytest.mark.controller
def test_it_grows_at_or_under_its_target_shrinks_above_and_pays_only_under_it():
    readings = [0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.3, 0.1]
    assert run(AdaptiveCoefficient(**RULE), *readings) == [0, 0, 0.005, 0.01, 0.012, 0.012, 0, 0.007]


@pytest.mark.controller
def test_the_coefficient_stays_above_zero_and_starts_where_it_is_told():
    control = AdaptiveCoefficient(**RULE | {"start": 0.003})
    assert run(control, 0.1, 0.3, 0.3, 0.3, 0.1) == [0.003, 0, 0, 0, 0]


@pytest.mark.degenerate
def test_a_reading_that_is_no_number_changes_nothing():
    control = AdaptiveCoefficient(**RULE)
    assert run(control, NAN, 0.1, 0.1, NAN, float("inf"), 0.1) == [0, 0, 0.005, 0.005, 0.005, 0.01]


@pytest.mark.controller
def test_a_resumed_controller_goes_on_where_it_was():
    control = AdaptiveCoefficient(**RULE)
    run(control, 0.1, 0.1, 0.1)
    resumed = AdaptiveCoefficient(**RULE)
    resumed.load_state_dict(control.state_dict())
    assert run(resumed, NAN, 0.1, 0.3) == run(control, NAN, 0.1, 0.3) == [0.01, 0.012, 0]


@pytest.mark.golden
def test_the_drive_of_the_recipe_is_the_coefficient_of_the_bonus(build, charge, paper):
    batch, now = paper
    algorithm = build("algorithm=entropy_bonus_adaptive", "algorithm.control.target=1.1", "algorithm.control.start=0.1")
    plain = charge(build("algorithm=dapo"), batch, now)[0]
    for coefficient in (0.1, 0.105, 0.11):
        assert charge(algorithm, batch, now)[0] == pytest.approx(plain - coefficient * 1.071429, abs=2e-6)


@pytest.mark.identity
def test_above_its_target_the_recipe_is_dapo(build, charge, paper):
    assert charge(build("algorithm=entropy_bonus_adaptive"), *paper)[0] == charge(build("algorithm=dapo"), *paper)[0]


@pytest.mark.parametrize("wrong", [{"target": 0}, {"step": 0}, {"start": -1}, {"start": 1}, {"ceiling": NAN}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=f"control.*{next(iter(wrong))}="):
        AdaptiveCoefficient(**RULE | wrong)
