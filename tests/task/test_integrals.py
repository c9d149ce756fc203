import pytest
from reasoning_gym.factory import create_dataset

from isentropic.task.integrals import TASKS, refuted
from isentropic.task.reasoning_gym import grade, score
from isentropic.task.repairs import is_answer

PROBLEMS = 12


@pytest.fixture(scope="module", params=TASKS)
def problems(request):
    made = create_dataset(request.param, seed=11, size=PROBLEMS)
    return request.param, [made[i] for i in range(PROBLEMS)]


def test_no_known_answer_is_refuted_in_any_of_its_forms(problems):
    name, entries = problems
    for entry in entries:
        known = entry["answer"].removesuffix(" + C")
        for form in (entry["answer"], known, f"7 + ({known})", f"({known})*2/2", f"-(-({known}) - C)"):
            assert not refuted(name, entry, form)
            assert grade(name, (), "", False, entry, form)[1] == is_answer(name, known)


@pytest.mark.parametrize("form", ["({})*2", "({}) + {x}", "-({})", "({}) + 1e-3*{x}", "{x}", "0", "y", "({}) + I*{x}"])
def test_another_slope_is_seen_without_the_scorer(problems, form):
    name, entries = problems
    for entry in entries:
        answer = form.format(entry["answer"].removesuffix(" + C"), x=entry["metadata"]["variable"])
        assert refuted(name, entry, answer)


@pytest.mark.parametrize("answer", ["", "nan", "oo", "zoo", "(", "[1, 2]", "True", "1/0", "import os", "x" * 2_000])
def test_what_has_no_slope_is_left_to_the_scorer_who_gives_nothing(problems, answer):
    name, entries = problems
    assert refuted(name, entries[0], answer) or score(name, (), entries[0], answer) == 0


def test_other_tasks_are_left_alone():
    assert not refuted("gcd", {"metadata": {}}, "x")
