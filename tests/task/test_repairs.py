from functools import cache

import pytest
from reasoning_gym.factory import create_dataset

from isentropic.task.reasoning_gym import grade
from isentropic.task.repairs import is_answer, repaired

PROBLEMS = 40


@cache
def problems(name):
    made = create_dataset(name, seed=3, size=PROBLEMS)
    return [made[i] for i in range(PROBLEMS)]


def earned(name, answer, partial_credit=False):
    """What an answer to every problem earns, and how many problems it is right for."""
    verdicts = [grade(name, (), "", partial_credit, problem, answer) for problem in problems(name)]
    golds = sum(problem["answer"] == answer for problem in problems(name))
    return sum(verdict[0] for verdict in verdicts), sum(verdict[1] for verdict in verdicts), golds


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("complex_arithmetic", "nan"),
        ("complex_arithmetic", "nan+nanj"),
        ("complex_arithmetic", "1e999"),
        ("game_of_life_halting", "nan"),
        ("game_of_life_halting", "1"),
        ("game_of_life_halting", "not at all"),
        ("coin_flip", "0"),
        ("time_intervals", "1"),
        ("puzzle24", "7*3 + 2 + 1"),
        ("puzzle24", "24.9 + 0*1*1"),
        ("power_function", "inf"),
        ("gcd", "nan"),
    ],
)
@pytest.mark.parametrize("partial_credit", [False, True])
def test_what_is_no_answer_earns_nothing(name, answer, partial_credit):
    reward, correct, golds = earned(name, answer, partial_credit)
    assert correct <= golds
    assert reward <= golds + (0.2 * PROBLEMS if partial_credit else 0)


@pytest.mark.parametrize(
    "name", ["complex_arithmetic", "game_of_life_halting", "coin_flip", "time_intervals", "puzzle24"]
)
@pytest.mark.parametrize("partial_credit", [False, True])
def test_known_answers_are_right(name, partial_credit):
    for problem in problems(name):
        assert grade(name, (), "", partial_credit, problem, problem["answer"])[1]


def test_what_is_partly_right_earns_only_where_that_is_asked_for():
    assert earned("time_intervals", "03:31:59")[0] == 0
    assert earned("time_intervals", "03:31:59", partial_credit=True)[0] > 0


@pytest.mark.parametrize(
    ("name", "known", "answer", "reward", "repaired_reward"),
    [
        ("any", "5", "5", 1.0, 1.0),
        ("any", "5", "5.0", 1.0, 1.0),
        ("any", "5", "6", 1.0, 0.0),
        ("any", "5", "five", 1.0, 0.0),
        ("any", "0.125", "0.1251", 1.0, 1.0),
        ("any", "0.125", "0", 1.0, 0.0),
        ("any", "0.125", "1/8", 1.0, 1.0),
        ("any", "False", "false", 1.0, 1.0),
        ("any", "False", "", 1.0, 0.0),
        ("any", "False", "0", 1.0, 0.0),
        ("any", "nan", "nan", 1.0, 1.0),
        ("any", "1.0 + 2.0i", "NaN", 1.0, 0.0),
        ("any", "infeasible", "infeasible", 1.0, 1.0),
        ("any", "banana", "banana", 1.0, 1.0),
        ("any", "infant nanny", "infant nanny", 1.0, 1.0),
        ("any", None, "[1, 2]", 1.0, 1.0),
        ("any", None, "x", float("nan"), 0.0),
        ("any", None, "x", float("inf"), 0.0),
        ("any", None, "x", 7.0, 1.0),
        ("any", "[1, 2]", "[1, 2]", 1.0, 1.0),
        ("puzzle24", "6 + 4 + 7 + 7", "7 + 7 + (4 + 6)", 1.0, 1.0),
        ("puzzle24", "6 + 4 + 7 + 7", "6*4 + 7 - 7", 1.0, 1.0),
        ("puzzle24", "6 + 4 + 7 + 7", "6 + 6 + 6 + 6", 1.0, 0.0),
        ("puzzle24", "5 + 5 + 5 + 9", "5*5 - 5/9", 1.0, 0.0),
        ("puzzle24", "4*(1 + 2 + 3)", "4!*(3 - 1*2)", 1.0, 0.0),
        ("puzzle24", "4*(1 + 2 + 3)", "0x18 + 0x0*(1 + 2 + 3 + 4)", 1.0, 0.0),
        ("countdown", "3*8 - 5", "8*3 - 5", 1.0, 1.0),
        ("countdown", "3*8 - 5", " (8 * 3)-5 ", 1.0, 1.0),
        ("countdown", "6/(1 - 3/4)", "6 / (1 - 3/4)", 1.0, 1.0),
        ("countdown", "3*8 - 5", "0x13 + 0x0*(3 + 8 + 5)", 1.0, 0.0),
        ("countdown", "3*8 - 5", "19e0 + 0e0*(3 + 8 + 5)", 1.0, 0.0),
        ("countdown", "3*8 - 5", "[0x13, 3 + 8 + 5][0x0]", 1.0, 0.0),
        ("countdown", "3*8 - 5", "0x13 # 3 + 8 + 5", 1.0, 0.0),
        ("countdown", "3*8 - 5", "9" * 5_000, 1.0, 0.0),
        ("countdown", "3*8 - 5", "0x13 or 3 + 8 + 5", 1.0, 0.0),
        ("countdown", "3*8 - 5", "3 + 8 + 5 + len('abc')", 1.0, 0.0),
        ("countdown", "1*5*5", "15 + 5 + 5", 1.0, 0.0),
        ("polynomial_multiplication", "x**2 + 2*x + 1", "1 + 2*x + x**2", 1.0, 1.0),
        ("polynomial_multiplication", "x**2 + 2*x + 1", "x^2 + 2*x + 1", 1.0, 1.0),
        ("polynomial_multiplication", "x**2 + 2*x + 1", "expand((x + 1)*(x + 1))", 1.0, 0.0),
        ("polynomial_multiplication", "x**2 + 2*x + 1", "((x + 1)**2).expand()", 1.0, 0.0),
        ("polynomial_multiplication", "x**2 + 2*x + 1", "Poly((x + 1)**2).as_expr()", 1.0, 0.0),
        ("polynomial_multiplication", "x**2 + 2*x + 1", "S('(x + 1)**2').expand()", 1.0, 0.0),
        ("simple_integration", "x**2/2 + C", "0.5*x**2 + C", 1.0, 1.0),
        ("simple_integration", "x**2/2 + C", "integrate(x, x)", 1.0, 0.0),
        ("simple_integration", "x**2/2 + C", "x.integrate(x) + C", 1.0, 0.0),
        ("simple_integration", "x**2/2 + C", "Integral(x, x)", 1.0, 0.0),
        ("simple_integration", "x**2/2 + C", "dsolve(Derivative(Function('f')(x), x) - x).rhs", 1.0, 0.0),
        ("intermediate_integration", "exp(x)*sin(x) + C", "exp(x)*sin(x)", 1.0, 1.0),
        ("intermediate_integration", "-log(cos(x)) + C", "log(sec(x)) + C", 1.0, 1.0),
        ("intermediate_integration", "3*Integral(x*cos(x), x) + C", "3*Integral(x*cos(x), x) + C", 1.0, 0.0),
        ("intermediate_integration", "3*Integral(x*cos(x), x) + C", "3*x*sin(x) + 3*cos(x) + C", 1.0, 1.0),
        ("spiral_matrix", "1 2 4 3", "1 2 4 3", 1.0, 1.0),
        ("n_queens", "_ Q\nQ _", "_ Q\nQ _", 1.0, 1.0),
    ],
)
def test_a_repair_takes_away_what_has_not_the_shape_of_the_known_answer(name, known, answer, reward, repaired_reward):
    assert repaired(name, known, answer, reward, partial_credit=False) == repaired_reward


@pytest.mark.parametrize(
    "answer",
    ["[1, 2, 4, 3]", "['1', '2', '4', '3']", "(1, 2, 4, 3)", "[k for k in (1, 2, 4, 3)]", "list((1, 2, 4, 3))"],
)
def test_of_what_is_evaluated_only_a_list_that_is_written_out_is_partly_right(answer):
    written = " for " not in answer and "list" not in answer
    for name in ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion"):
        assert repaired(name, "1 2 4 3", answer, 0.1, partial_credit=True) == (0.1 if written else 0)


@pytest.mark.parametrize("name", ["countdown", "polynomial_multiplication", "intermediate_integration"])
def test_a_known_answer_is_right_unless_it_leaves_an_integral(name):
    for problem in problems(name):
        right = "Integral" not in problem["answer"]
        assert grade(name, (), "", False, problem, problem["answer"])[1] == right == is_answer(name, problem["answer"])


def test_a_repair_gives_nothing():
    assert repaired("any", "5", "5", 0.4, partial_credit=True) == 0.4
    assert repaired("any", "5", "5", 0.4, partial_credit=False) == 0
    assert repaired("any", "5", "5", -1.0, partial_credit=True) == 0
    assert repaired("countdown", "3*8 - 5", "3 + 8 + 5", 0.05, partial_credit=True) == 0.05
    assert repaired("countdown", "3*8 - 5", "0x3 + 8 + 5", 0.05, partial_credit=True) == 0
