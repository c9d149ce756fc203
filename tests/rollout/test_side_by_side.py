import threading

from isentropic.rollout.side_by_side import side_by_side


def test_outcomes_stand_in_the_order_of_the_calls_whatever_ends_first():
    gates = [threading.Event() for _ in range(3)]
    gates[2].set()

    def call(place):
        gates[place].wait()
        if place:
            gates[place - 1].set()
        return place

    found = side_by_side([lambda p=p: call(p) for p in range(3)], [60.0] * 3, 3, lambda late: None)
    assert [one.value for one in found] == [0, 1, 2] and all(one.error is None for one in found)


def test_an_error_is_an_outcome():
    def fail():
        raise SystemExit(3)

    first, second = side_by_side([fail, lambda: 1], [60.0, 60.0], 1, lambda late: None)
    assert isinstance(first.error, SystemExit) and first.value is None and second.value == 1


def test_what_hangs_is_given_up_on_and_leaves_its_place_to_the_next():
    gate, came = threading.Event(), threading.Event()
    late = []

    def hang():
        gate.wait()
        return "late"

    def note(value):
        late.append(value)
        came.set()

    first, second = side_by_side([hang, lambda: 2], [0.05, 60.0], 1, note)
    assert isinstance(first.error, TimeoutError) and second.value == 2
    assert "0.05 seconds" in str(first.error)
    gate.set()
    assert came.wait(60) and late == ["late"]


def test_nothing_to_call_is_no_outcome():
    assert side_by_side([], [], 4, lambda late: None) == []


def test_a_limit_beyond_all_clocks_does_not_stop_the_watch():
    first, second = threading.Event(), threading.Event()
    threading.Timer(0.2, first.set).start()
    threading.Timer(5.0, second.set).start()
    one, other = side_by_side([first.wait, second.wait], [1e18, 0.1], 1, lambda late: None)
    second.set()
    assert one.value is True and isinstance(other.error, TimeoutError)
