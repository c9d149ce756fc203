from dataclasses import replace

import pytest
from fixtures.evaluations import flags, kept

from isentropic.evaluation.sets import read, sheets


def test_problems_come_in_the_order_of_their_rows_with_all_their_answers():
    problems, answers = kept({"b": flags([1, 2], 2), "a": flags([0], 3)})
    found = sheets(problems[::-1], answers[::-1])
    assert [sheet.set for sheet in found] == ["a", "b"]
    assert [sheet.k for sheet in found] == [3, 2]
    assert [sheet.right.tolist() for sheet in found] == [[0], [1, 2]]
    assert [one.child for one in found[0].every] == [0, 1, 2]


def test_a_problem_that_stands_twice_counts_twice():
    problems, answers = kept({"a": flags([1, 0], 2)})
    twice = [*problems, replace(problems[0], row=7)]
    assert sheets(twice, answers)[0].right.tolist() == [1, 0, 1]


@pytest.mark.parametrize(("taken", "said"), [(1, "a lacks 1 of its answers"), (4, "a lacks all of its answers")])
def test_what_is_not_finished_has_no_score(taken, said):
    problems, answers = kept({"a": flags([1, 0], 2)})
    with pytest.raises(ValueError, match=f"{said}.*the same command again"):
        sheets(problems, answers[taken:])


def test_a_folder_that_is_none_is_named(tmp_path):
    with pytest.raises(ValueError, match="is not the folder of an evaluation"):
        read(tmp_path)
