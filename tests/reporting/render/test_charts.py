from pathlib import Path

import numpy as np
import pytest

from isentropic.reporting.render.charts import numbers, spark, ticks
from isentropic.runs.metrics import Series
from isentropic.runs.run import Run


def run(entropy):
    steps = np.arange(1, len(entropy) + 1)
    metrics = {"entropy/mean": Series(steps, np.array(entropy))} if len(entropy) else {}
    return Run(Path("run"), "", {}, (), "done", "", metrics, {}, [])


@pytest.mark.parametrize(
    "values, expected",
    [
        ([0.06, 0.14], [0.05, 0.075, 0.1, 0.125, 0.15]),
        ([0.0, 1.0], [-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25]),
        ([5.0], [4.8, 5.0, 5.2]),
        ([0.0], [-0.25, 0.0, 0.25]),
        ([-3.0, 3.0], [-4.0, -2.0, 0.0, 2.0, 4.0]),
    ],
)
def test_ticks_are_round_and_leave_no_value_outside(values, expected):
    found = ticks(values)
    assert found[0] <= min(values) and found[-1] >= max(values) and len(set(found)) == len(found)
    assert found == pytest.approx(expected)


def test_a_run_s_entropy_is_a_line_from_the_top_to_the_floor():
    points = [tuple(map(float, point.split(","))) for point in spark(run([0.4] * 30 + [0.0] * 30), 0.4).split()]
    assert points[0] == (0.0, 1.0) and points[-1] == (100.0, 24.0) and len(points) == 60
    assert all(0 <= x <= 100 and 1 <= y <= 24 for x, y in points)


@pytest.mark.degenerate
@pytest.mark.parametrize("entropy, top", [([], 0.4), ([0.3], 0.4), ([0.0, 0.0], 0.0)])
def test_what_is_no_line_is_not_drawn(entropy, top):
    assert spark(run(entropy), top) == ""


def test_numbers_are_short():
    assert numbers(np.array([0.123456, 1234567.0])) == [0.1235, 1235000.0]
    assert numbers(np.array([1234567.0]), 7) == [1234567.0]
