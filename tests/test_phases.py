import threading

import pytest

from isentropic import phases
from isentropic.phases import doing, innermost, phase_of, usual


def test_a_phase_is_known_with_those_around_it_and_times_are_of_those_that_ended(monkeypatch):
    seen = []
    clock = iter([0.0, 1.0, 4.0, 10.0, 20.0, 27.0])
    monkeypatch.setattr(phases, "monotonic", lambda: next(clock))
    with doing("a test"):
        with doing("a part"):
            seen = [phase.name for phase in phases.RUNNING]
        assert innermost()[-1].name == "a test"
    assert seen == ["a test", "a test/a part"]
    assert usual("a test/a part") == 3 and usual("a test") == 10 and usual("a part") is None
    with pytest.raises(KeyError) as error, doing("a test"):
        raise KeyError
    assert phase_of(error.value) == "a test" and phase_of(KeyError()) is None
    assert usual("a test") == 10 and not [phase for phase in phases.RUNNING if "a test" in phase.name]


def test_each_thread_has_phases_of_its_own():
    entered, leave, names = threading.Event(), threading.Event(), []

    def other():
        with doing("beside"):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with doing("here"):
        thread.start()
        entered.wait()
        names = {phase.name: phase.thread for phase in innermost()}
        leave.set()
        thread.join()
    assert names["here"] == threading.get_ident() and names["beside"] == thread.ident
