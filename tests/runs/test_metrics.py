import math

import numpy as np
import pytest

from isentropic.runs.metrics import metrics_files, read_metrics


@pytest.fixture
def csv(tmp_path):
    def write(text, name="metrics.csv"):
        (tmp_path / name).write_bytes(text.encode())
        return tmp_path / name

    return write


def values(log, name="entropy/mean"):
    return list(zip(log.series[name].steps.tolist(), log.series[name].values.tolist(), strict=True))


def test_rollouts_and_evaluations_stand_on_lines_of_their_own(csv):
    log = read_metrics([csv("entropy/mean,eval/avg@8,step\n,0.2,0\n0.3,,1\n0.25,,2\n,0.4,2\n")])
    assert values(log) == [(1, 0.3), (2, 0.25)] and values(log, "eval/avg@8") == [(0, 0.2), (2, 0.4)]
    assert log.remarks == [] and log.broken == {}


def test_what_a_report_does_not_tell_of_is_not_kept(csv):
    log = read_metrics([csv("advantage/correct,credit/stare,credit/stare_positive_expected,step\n1,2,3,1\n")])
    assert set(log.series) == {"credit/stare"}


def test_a_line_that_was_cut_off_is_left_out(csv):
    log = read_metrics([csv("entropy/mean,rollout/reward,step\n0.3,0.5,1\n0.2,0.6,2\n0.1,0.")])
    assert values(log) == [(1, 0.3), (2, 0.2)]
    assert log.remarks == ["the last line of metrics.csv was cut off and left out"]


def test_a_header_that_changes_midway_begins_a_new_table(csv):
    log = read_metrics([csv("entropy/mean,step\n0.3,1\nrollout/reward,entropy/mean,step\n0.5,0.2,2\n")])
    assert values(log) == [(1, 0.3), (2, 0.2)] and values(log, "rollout/reward") == [(2, 0.5)]
    assert log.remarks == ["the header of metrics.csv changes midway; all its parts were read"]


def test_lines_that_are_no_numbers_are_counted(csv):
    log = read_metrics([csv("entropy/mean,step\n0.3,1\nrubbish,2\n0.1\n0.2,3\n")])
    assert values(log) == [(1, 0.3), (3, 0.2)]
    assert log.remarks == ["2 lines of metrics.csv left out: no numbers, or not as many as the header has names"]


def test_of_parts_the_newest_counts(csv, tmp_path):
    csv("entropy/mean,step\n0.3,1\n0.2,2\n0.9,3\n", "metrics.1.csv")
    csv("step,entropy/mean\n3,0.15\n4,0.14\n", "metrics.2.csv")
    csv("entropy/mean,step\n0.1,4\n", "metrics.10.csv")
    csv("entropy/mean,step\n0.05,5\n")
    files = metrics_files(tmp_path)
    assert [file.name for file in files] == ["metrics.1.csv", "metrics.2.csv", "metrics.10.csv", "metrics.csv"]
    assert values(read_metrics(files)) == [(1, 0.3), (2, 0.2), (3, 0.15), (4, 0.1), (5, 0.05)]


def test_nan_is_an_alarm_where_it_can_never_be_right(csv):
    log = read_metrics(
        [csv("entropy/mean,advantage/correct,credit/stare,policy/loss,step\n0.3,nan,nan,0.1,1\nnan,1,0.5,inf,2\n")]
    )
    assert log.broken == {"entropy/mean": 2, "policy/loss": 2}
    assert values(log) == [(1, 0.3)] and values(log, "credit/stare") == [(2, 0.5)]


def test_a_step_logged_twice_counts_as_it_was_last(csv):
    assert values(read_metrics([csv("entropy/mean,step\n0.3,2\n0.2,1\n0.4,2\n")])) == [(1, 0.2), (2, 0.4)]


def test_the_entropy_of_older_runs_has_the_name_of_today(csv):
    assert values(read_metrics([csv("policy/entropy,step\n0.3,1\n")])) == [(1, 0.3)]


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("", "metrics.csv is empty"),
        ("a,b\n1,2\n", "metrics.csv has no column step, so it was not read"),
        ("entropy/mean,step\n", "no metrics were logged yet"),
        ("entropy/mean,step\n0.1", "the last line of metrics.csv was cut off and left out"),
    ],
)
def test_a_file_with_nothing_to_read_says_why(csv, text, remark):
    log = read_metrics([csv(text)])
    assert log.series == {} and remark in log.remarks


def test_windows_line_ends_are_line_ends(csv):
    assert values(read_metrics([csv("entropy/mean,step\r\n0.3,1\r\n0.2,2\r\n")])) == [(1, 0.3), (2, 0.2)]


def test_metrics_logged_together_share_their_steps(csv):
    log = read_metrics([csv("entropy/mean,rollout/reward,step\n" + "".join(f"0.3,0.{i},{i}\n" for i in range(1, 9)))])
    assert log.series["entropy/mean"].steps is log.series["rollout/reward"].steps
    assert log.series["rollout/reward"].last == 0.8 and not math.isnan(np.sum(log.series["rollout/reward"].values))
