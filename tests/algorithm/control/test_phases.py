import pytest

from isentropic.algorithm.control.phases import Phases
from isentropic.batch import Drive, Vitals


def drives(phases, *steps, total=400):
    return [phases.update(Vitals(1.0, k / total)) for k in steps]


@pytest.mark.golden
def test_id_pushes_up_less_and_less_then_down_less_and_less():
    expected = [Drive(1, 0), Drive(0.5, 0), Drive(0, 0), Drive(0, 0.995), Drive(0, 0.5), Drive(0, 0)]
    found = drives(Phases(rising=False, boundary=0.5), 0, 100, 200, 201, 300, 400)
    assert [d.up for d in found] == pytest.approx([d.up for d in expected])
    assert [d.down for d in found] == pytest.approx([d.down for d in expected])


@pytest.mark.golden
def test_did_pushes_up_more_and_more_and_goes_on_when_it_pushes_down():
    found = drives(Phases(rising=True, boundary=0.5), 0, 100, 200, 201, 300, 400)
    assert [d.up for d in found] == pytest.approx([0, 0.5, 1, 1, 1, 1])
    assert [d.down for d in found] == pytest.approx([0, 0, 0, 0.995, 0.5, 0])


@pytest.mark.golden
@pytest.mark.parametrize("rho", [0.3, 0.4, 0.5, 0.6])
def test_phases_may_be_of_unequal_length(rho):
    for k in range(0, 401, 20):
        lam = 1 - k / (rho * 400) if k <= rho * 400 else -(k - rho * 400) / ((1 - rho) * 400)
        (drive,) = drives(Phases(rising=False, boundary=rho), k)
        assert (drive.up, drive.down) == pytest.approx((lam, 0) if lam >= 0 else (0, 1 + lam))


@pytest.mark.parametrize("rho, k", [(0.5, 200), (0.3, 120), (0.6, 240), (0.1, 40)])
def test_the_boundary_belongs_to_phase_one(rho, k):
    at, after = drives(Phases(rising=True, boundary=rho), k, k + 1)
    assert (at.up, at.down) == (1, 0)
    assert after.down > 0.99


@pytest.mark.controller
def test_they_follow_progress_alone():
    for phases in Phases(rising=False, boundary=0.5), Phases(rising=True, boundary=0.5):
        straight = drives(phases, *range(10), total=10)
        again = Phases(phases.rising, phases.boundary)
        again.load_state_dict(phases.state_dict())
        assert drives(again, *range(6, 10), total=10) == straight[6:]
        assert phases.state_dict() == {}
        assert phases.update(Vitals(float("nan"), 0.6)) == straight[6]


def test_phase_one_may_be_all_there_is():
    assert drives(Phases(rising=False, boundary=1.0), 400) == [Drive(0, 0)]


def test_beyond_its_end_training_is_not_pushed():
    assert drives(Phases(rising=False, boundary=0.5), 500) == [Drive(0, 0)]


@pytest.mark.parametrize("boundary", [0, -0.5, 1.5, float("nan")])
def test_a_boundary_outside_training_is_refused(boundary):
    with pytest.raises(ValueError, match=r"control.boundary=.* share of training"):
        Phases(rising=True, boundary=boundary)
