from math import isnan

import pytest

from isentropic.policy.log_row import MEASURED, Record


def step(predicted):
    return {"entropy/predicted_change": predicted, "ratio/mean": 1.0, "ratio/mean_square": 1.0}


def test_a_change_of_entropy_stands_beside_what_was_predicted_of_the_same_update():
    record = Record()
    first = record.row({"entropy/mean": 0.5}, [step(0.1), step(0.2)])
    assert MEASURED not in first and "entropy/predicted_change" not in first
    second = record.row({"entropy/mean": 0.4}, [step(7.0)])
    assert second[MEASURED] == pytest.approx(-0.1) and second["entropy/predicted_change"] == pytest.approx(0.3)


def test_a_run_that_goes_on_remembers_the_entropy_before():
    whole, stopped = Record(), Record()
    for record in (whole, stopped):
        record.row({"entropy/mean": 0.5}, [step(0.1)])
    resumed = Record()
    resumed.load_state_dict(stopped.state_dict())
    rows = [record.row({"entropy/mean": 0.4}, [step(0.1)]) for record in (whole, resumed)]
    assert rows[0] == rows[1] and MEASURED in rows[0]


def test_a_run_that_goes_on_logs_what_has_no_value_as_one_that_never_stopped_does():
    stopped, resumed = Record(), Record()
    stopped.row({"entropy/mean": 0.5, "advantage/correct": 1.0}, [step(0.1)])
    resumed.load_state_dict(stopped.state_dict())
    rows = [record.row({"entropy/mean": 0.4}, [step(0.1)]) for record in (stopped, resumed)]
    assert rows[0].keys() == rows[1].keys() and isnan(rows[1]["advantage/correct"])


def test_a_checkpoint_that_does_not_say_starts_blank():
    record = Record()
    record.load_state_dict({})
    assert MEASURED not in record.row({"entropy/mean": 0.4}, [step(0.1)])


def test_what_has_no_value_any_more_is_not_repeated():
    record = Record()
    record.row({"entropy/mean": 0.5, "advantage/correct": 1.0}, [step(0.1)])
    assert isnan(record.row({"entropy/mean": 0.5}, [step(0.1)])["advantage/correct"])
