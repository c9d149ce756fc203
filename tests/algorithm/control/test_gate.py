import pytest

from isentropic.algorithm.control.constant import Constant
from isentropic.algorithm.control.gate import Gate
from isentropic.batch import Drive, Vitals

NAN = float("nan")


def run(gate, *readings):
    return [gate.update(Vitals(h, 0.0)).up for h in readings]


def test_open_strictly_below_its_target_and_as_it_was_for_what_is_no_number():
    gate = Gate(target=0.3, step=0.0, ceiling=5)
    assert run(gate, NAN, 0.5, NAN, 0.29, float("inf"), 0.3, float("-inf")) == [1, 0, 0, 1, 1, 0, 0]


def test_the_papers_adaptive_weights():
    gate, seen = Gate(target=0.3, step=0.1, ceiling=5), []
    for entropy in 0.5, 0.29, 0.30, NAN, 0.10:
        up = gate.update(Vitals(entropy, 0.0)).up
        seen.append((int(up > 0), round(1 + 0.1 * gate.strength, 9), round(1 - 0.1 * gate.strength, 9)))
    assert seen == [(0, 1.09, 0.91), (1, 1.10, 0.90), (0, 1.10, 0.90), (0, 1.10, 0.90), (1, 1.11, 0.89)]


def test_strength_stays_between_zero_and_its_ceiling():
    gate = Gate(target=0.3, step=0.1, ceiling=5)
    assert run(gate, *[0.1] * 60)[-1] == 5
    run(gate, *[0.5] * 90)
    assert gate.strength == 0


def test_a_resumed_gate_goes_on_where_it_was():
    gate = Gate(target=0.3, step=0.1, ceiling=5)
    run(gate, 0.1, 0.1, 0.5)
    resumed = Gate(target=0.3, step=0.1, ceiling=5)
    resumed.load_state_dict(gate.state_dict())
    assert run(resumed, NAN, 0.2) == run(gate, NAN, 0.2) == [0, pytest.approx(1.2)]


def test_a_resumed_gate_obeys_its_new_settings():
    gate = Gate(target=0.2, step=0.0, ceiling=5)
    gate.load_state_dict(Gate(target=0.3, step=0.1, ceiling=5).state_dict())
    assert (gate.target, gate.step) == (0.2, 0)
    assert gate.update(Vitals(0.25, 0.0)) == Drive()


def test_the_memory_of_another_controller_is_refused():
    with pytest.raises(ValueError, match=r"remembers \[\] but Gate remembers \['open', 'strength'\]"):
        Gate(target=0.3, step=0.1, ceiling=5).load_state_dict(Constant(1, 0).state_dict())


@pytest.mark.parametrize(
    "target, step, ceiling, named",
    [(0, 0, 5, "target"), (NAN, 0, 5, "target"), (0.3, -0.1, 5, "step"), (0.3, 0, 0.5, "ceil")],
)
def test_settings_that_make_no_sense_are_refused(target, step, ceiling, named):
    with pytest.raises(ValueError, match=f"control.{named}"):
        Gate(target, step, ceiling)
