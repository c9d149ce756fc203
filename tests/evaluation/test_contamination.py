import json

import pytest
from fixtures.evaluations import asked, flags, kept

from isentropic.evaluation.contamination import lines, seen, without, write_contamination
from isentropic.evaluation.sets import sheets

LONG = "Find the sum of all integers n for which n squared plus {} n is a perfect square of an integer"


def test_kinds_are_told_apart_by_set():
    training = [LONG.format(5).upper(), f"Solve: {LONG.format(6)}!", LONG.format(7) + " or of a cube"]
    tests = {"a": [LONG.format(5), "Another question, of which training holds nothing at all"], "b": [LONG.format(6)]}
    found = seen(training, tests)
    assert (found["a"].exact, found["a"].wrapped, found["a"].near) == ([0], [], [0])
    assert (found["b"].exact, found["b"].wrapped, found["b"].any) == ([], [0], [0])
    assert found["a"].problems == 2


def test_the_score_is_told_with_and_without():
    sheet = sheets(*kept({"a": flags([4, 4, 0, 2], 4)}))[0]
    score = without(sheet, [0])
    assert (score.all, score.clean) == (0.625, 0.5) and score.difference == 0.125
    assert score.low is not None and score.low <= score.difference <= score.high


@pytest.mark.degenerate
def test_nothing_left_or_nothing_seen():
    sheet = sheets(*kept({"a": flags([4, 0], 4)}))[0]
    assert without(sheet, [0, 1]).clean is None
    assert (without(sheet, []).difference, without(sheet, []).low) == (0, None)
    found = seen([], {"a": ["x", ""]})
    assert found["a"].any == []
    assert "none is left" in lines(found, {"a": without(sheet, [0, 1])})[2]


def test_an_evaluation_keeps_what_its_subject_has_seen(tmp_path):
    sheet = sheets(*kept({"a": flags([4, 0], 4)}))[0]
    write_contamination(tmp_path, [asked("a", 1).question], ["mine"], [sheet])
    found = json.loads((tmp_path / "contamination.json").read_text())
    assert found["train"] == ["mine"] and found["sets"]["a"]["exact"] == [1]
    assert found["sets"]["a"]["score"]["clean"] == 1 and "not compared" in found["limits"]
