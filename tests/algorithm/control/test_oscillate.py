import pytest
from hypothesis import given
from hypothesis import strategies as st

from isentropic.algorithm.control.oscillate import Oscillate
from isentropic.algorithm.control.phases import Phases
from isentropic.batch import Drive, Vitals

NAN = float("nan")
READINGS = [1.0, 0.6, 0.2, 0.5, 0.9, 0.65, 0.5, 0.19, 0.3, 0.35]


def states(control, readings, first=0, total=10):
    drives = [control.update(Vitals(h, (first + k) / total)) for k, h in enumerate(readings)]
    assert all({d.up, d.down} == {0, 1} for d in drives)
    return [d.up for d in drives]


@pytest.mark.golden
@pytest.mark.parametrize("start", [None, 1.0])
def test_the_papers_hysteresis(start):
    assert states(Oscillate(floor=0.2, start=start), READINGS) == [0, 0, 1, 1, 0, 0, 0, 1, 1, 0]


@pytest.mark.golden
def test_the_limit_falls_to_the_floor():
    limits = [1.0, 0.92, 0.84, 0.76, 0.68, 0.6, 0.52, 0.44, 0.36, 0.28]
    for k, limit in enumerate(limits):
        for height, up in ((limit - 1e-6, 1), (limit + 1e-6, 0)):
            control = Oscillate(floor=0.2, start=1.0)
            assert states(control, [0.2], k) == [1]
            assert states(control, [height], k) == [up]


@pytest.mark.controller
@pytest.mark.parametrize("cut", range(10))
def test_a_resumed_run_goes_on_where_it_was(cut):
    straight = states(Oscillate(floor=0.2, start=None), READINGS)
    first = Oscillate(floor=0.2, start=None)
    states(first, READINGS[:cut])
    resumed = Oscillate(floor=0.2, start=None)
    resumed.load_state_dict(first.state_dict())
    assert resumed == first
    assert states(resumed, READINGS[cut:], cut) == straight[cut:]


@pytest.mark.controller
def test_it_remembers_its_first_reading_and_its_state():
    control = Oscillate(floor=0.2, start=None)
    assert control.state_dict() == {"initial": 0.0, "up": False}
    states(control, READINGS[:3])
    assert control.state_dict() == {"initial": 1.0, "up": True}


@pytest.mark.controller
def test_a_resumed_run_obeys_its_setting_of_the_start():
    control = Oscillate(floor=0.2, start=None)
    states(control, [1.0])
    resumed = Oscillate(floor=0.2, start=10.0)
    resumed.load_state_dict(control.state_dict())
    assert states(resumed, [1.0]) == [1]


@pytest.mark.controller
def test_the_memory_of_another_controller_is_refused():
    with pytest.raises(ValueError, match=r"remembers \[\] but Oscillate remembers \['initial', 'up'\]"):
        Oscillate(floor=0.2, start=None).load_state_dict(Phases(rising=True, boundary=0.5).state_dict())


@pytest.mark.degenerate
@pytest.mark.parametrize("nothing", [NAN, float("inf"), float("-inf")])
def test_a_first_reading_that_is_no_number_does_not_become_the_start(nothing):
    control = Oscillate(floor=0.2, start=None)
    assert control.update(Vitals(nothing, 0.0)) == Drive(up=0, down=1)
    assert control.state_dict() == {"initial": 0.0, "up": False}
    assert states(control, READINGS) == [0, 0, 1, 1, 0, 0, 0, 1, 1, 0]


@pytest.mark.degenerate
def test_later_readings_that_are_no_number_keep_the_state():
    control = Oscillate(floor=0.2, start=None)
    assert states(control, [1.0, NAN, 0.2, NAN, float("inf"), 0.19, NAN]) == [0, 0, 1, 1, 1, 1, 1]
    assert control.initial == 1.0


@pytest.mark.degenerate
def test_a_start_without_entropy_is_refused():
    with pytest.raises(ValueError, match=r"first entropy reading is 0.0, .* set algorithm.control.start"):
        Oscillate(floor=0.2, start=None).update(Vitals(0.0, 0.0))
    assert Oscillate(floor=0.2, start=0.5).update(Vitals(0.0, 0.0)) == Drive(up=1, down=0)


@given(st.lists(st.floats(0.01, 5) | st.just(NAN), min_size=1, max_size=30), st.floats(0.05, 0.9))
def test_outside_the_band_the_state_is_that_of_the_reading(readings, floor):
    control = Oscillate(floor=floor, start=1.0)
    for k, entropy in enumerate(readings):
        before = control.up
        drive = control.update(Vitals(entropy, k / len(readings)))
        if entropy <= floor:
            assert drive == Drive(up=1, down=0)
        elif entropy > 1:
            assert drive == Drive(up=0, down=1)
        elif entropy != entropy:
            assert control.up == before


@pytest.mark.parametrize(
    "floor, start, named",
    [(0, None, "floor"), (1, None, "floor"), (NAN, None, "floor"), (0.2, 0, "start"), (0.2, NAN, "start")],
)
def test_settings_that_make_no_sense_are_refused(floor, start, named):
    with pytest.raises(ValueError, match=f"control.{named}="):
        Oscillate(floor, start)
