import pytest

from isentropic.evaluation.answers import Answered, Asked, add, write_problems
from isentropic.evaluation.summary import write_scores


def asked(name, problem):
    return Asked(name, problem, 0, "?", "1", "?", "0" * 16, 1)


def answer(name, problem, child, right):
    return Answered(name, problem, child, 0, "", 1, "stop", None, {"rule": right}, {"rule": "right"}, 0.1)


def test_each_set_has_its_own_mean_over_problems(tmp_path):
    write_problems(tmp_path, [asked("a", "p"), asked("a", "q"), asked("b[1]", "p")])
    add(tmp_path, [answer("a", "p", 0, True), answer("a", "p", 1, True), answer("a", "q", 0, True)])
    add(tmp_path, [answer("a", "q", 1, False), answer("b[1]", "p", 0, False)])
    assert write_scores(tmp_path) == {"a/avg@2": 0.75, "b[1]/avg@1": 0.0}


def test_a_problem_without_an_answer_is_no_score(tmp_path):
    write_problems(tmp_path, [asked("a", "p")])
    with pytest.raises(ValueError, match="problem p of a has no answer"):
        write_scores(tmp_path)
