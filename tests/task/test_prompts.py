import pytest

from isentropic.task.prompts import check_template, fill


def test_only_the_question_is_filled_in():
    assert fill(r"{question} End with \boxed{}.", "What is {x}?") == r"What is {x}? End with \boxed{}."


def test_a_template_without_a_place_for_the_question_is_refused():
    check_template("Q: {question}")
    with pytest.raises(ValueError, match=r"must contain \{question\}"):
        check_template("Q: {problem}")
