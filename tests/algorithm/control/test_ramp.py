import pytest

from isentropic.algorithm.control.ramp import Ramp
from isentropic.batch import Vitals

NAN = float("nan")


def run(control, *readings):
    return [control.update(Vitals(h, 0.0)).up for h in readings]


@pytest.mark.golden
def test_it_moves_by_the_sign_of_the_error_before_it_is_used():
    ramp = Ramp(target=0.3, step=0.25, ceiling=2.5)
    assert run(ramp, 0.4, 0.2, 0.1, 0.3, NAN, 0.5, 0.5, 0.5) == [0, 0.25, 0.5, 0.5, 0.5, 0.25, 0, 0]
    assert run(ramp, *[0.1] * 12)[-3:] == [2.5, 2.5, 2.5]


def test_a_resumed_ramp_goes_on_where_it_was():
    ramp, resumed = (Ramp(target=0.3, step=0.25, ceiling=2.5) for _ in range(2))
    run(ramp, 0.1, 0.1)
    resumed.load_state_dict(ramp.state_dict())
    assert run(resumed, NAN, 0.1) == [0.5, 0.75]


@pytest.mark.parametrize(
    "target, step, ceiling, named", [(0, 1, 1, "target"), (0.3, 0, 1, "step"), (0.3, 1, 0, "ceiling")]
)
def test_settings_that_make_no_sense_are_refused(target, step, ceiling, named):
    with pytest.raises(ValueError, match=rf"control\.{named}="):
        Ramp(target, step, ceiling)
