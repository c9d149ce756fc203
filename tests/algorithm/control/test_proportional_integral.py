import pytest

from isentropic.algorithm.control.proportional_integral import ProportionalIntegral
from isentropic.batch import Vitals

NAN = float("nan")
RULE = {"target": 0.3, "proportional": 1.0, "integral": 0.01, "limit": 1.0}


def run(control, *readings):
    """a = down - up."""
    drives = [control.update(Vitals(h, 0.0)) for h in readings]
    assert all(min(drive.up, drive.down) == 0 for drive in drives)
    return [round(drive.down - drive.up, 9) for drive in drives]


@pytest.mark.golden
def test_coefficients_worked_out_elsewhere(build):
    control = build("algorithm=entro_pic", "algorithm.control.target=0.3").control
    assert run(control, 0.5, 0.3, 0.2) == [0.2, 0.002, -0.098]


@pytest.mark.controller
def test_the_drive_is_limited_and_the_sum_is_not():
    control = ProportionalIntegral(**RULE)
    assert run(control, 5.0, 0.3, -5.0) == [1, 0.047, -1]
    assert control.total == pytest.approx(-0.6)


@pytest.mark.degenerate
def test_a_reading_that_is_no_number_changes_nothing():
    assert run(ProportionalIntegral(**RULE), NAN, 0.5, NAN, 0.3, float("inf"), 0.2) == [
        0, 0.2, 0.2, 0.002, 0.002, -0.098,
    ]  # fmt: skip


@pytest.mark.controller
def test_a_resumed_controller_goes_on_where_it_was():
    control = ProportionalIntegral(**RULE)
    run(control, 0.5, 0.3)
    resumed = ProportionalIntegral(**RULE)
    resumed.load_state_dict(control.state_dict())
    assert control.state_dict() == {"total": pytest.approx(0.2), "asked": pytest.approx(0.002)}
    assert run(resumed, NAN, 0.2) == run(control, NAN, 0.2) == [0.002, -0.098]


@pytest.mark.parametrize(
    "wrong", [{"target": -1}, {"integral": -1}, {"proportional": 0, "integral": 0}, {"limit": 0}, {"target": NAN}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=f"control.*{next(iter(wrong))}="):
        ProportionalIntegral(**RULE | wrong)
