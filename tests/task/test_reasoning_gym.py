import contextlib
import inspect
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.hostile import Bait
from fixtures.hostile_answers import EXPRESSIONS, FOLDER, HEAVY, TEXTS, bought
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_gym.factory import DATASETS

from isentropic.task import integrals
from isentropic.task.reasoning_gym import BLOCK, ReasoningGym, answer_in, dataset, score
from isentropic.task.repairs import CHECKS
from isentropic.tools.guard import guard
from isentropic.tools.pool import Pool
from isentropic.tools.process import COMMAND

HELD_OUT = ("validation", "test")

SETTINGS = {
    "options": {},
    "template": "{question}\nAnswer:",
    "marker": "Answer:",
    "held_out": 0.1,
    "seed": 0,
    "partial_credit": False,
    "workers": 1,
    "timeout": 30.0,
    "memory": 4.0,
}


def task(name="chain_sum", **overrides):
    return ReasoningGym(name=name, **(SETTINGS | overrides))


def questions(problems):
    return {problem.prompt for problem in problems}


def test_answers_are_scored_by_the_task_itself():
    gym = task("letter_counting")
    problem = gym.problems("train")[0]
    right = problem.reference["answer"]
    texts = [f"Answer: {right}", f"Answer: 0. Answer: {right}\nQ: next", f"Answer: {int(right) + 1}", right, "Answer:"]
    verdicts = gym.verify([problem] * 5, texts)
    assert [verdict.status for verdict in verdicts] == ["right", "right", "wrong", "unparseable", "unparseable"]
    assert [verdict.reward for verdict in verdicts[:2]] == [1, 1]
    assert verdicts[3].reward == 0
    gym.close()


def test_a_number_with_more_beside_it_is_no_number():
    gym = task("gcd", partial_credit=True)
    problem = gym.problems("train")[0]
    right = problem.reference["answer"]
    (verdict,) = gym.verify([problem], [f"Answer: {right} or so"])
    assert verdict.reward == 0  # several, or none: the library would pay for the number in it
    gym.close()


def test_a_partial_score_is_a_reward_where_that_is_asked_for_but_not_right():
    for partial_credit in (True, False):
        gym = task("string_manipulation", partial_credit=partial_credit)
        problem = gym.problems("train")[0]
        right = problem.reference["answer"]
        (verdict,) = gym.verify([problem], [f"Answer: {right} or so"])
        assert verdict.reward == pytest.approx(len(right) / (len(right) + 6) if partial_credit else 0)
        assert not verdict.correct
        gym.close()


@pytest.mark.slow
def test_what_the_model_wrote_may_raise_or_hang_the_scorer():
    gym = task("spiral_matrix", timeout=0.5)
    problem = gym.problems("train")[0]
    right = problem.reference["answer"]
    texts = ["Answer: [9**9**9**9]", "Answer: [exit(1)]", f"Answer: {right}"]
    verdicts = gym.verify([problem] * 3, texts)
    assert verdicts[0].status == "timeout"
    assert verdicts[1].reward == 0
    assert verdicts[2].status == "right"
    gym.close()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 2**31), st.integers(0, 10**6))
def test_splits_share_no_question_whatever_the_seeds_and_where_one_looks(seed, other, index):
    train = questions(task("letter_counting", seed=seed).problems("train")[index : index + 10])
    other = task("letter_counting", seed=other)
    validation, test = (questions(other.problems(split)[index : index + 5]) for split in HELD_OUT)
    assert not train & validation and not train & test and not validation & test


def test_splits_share_no_question_even_where_there_are_few():
    few = {"min_terms": 2, "max_terms": 2, "max_digits": 1}
    gym = task(options=few)
    train, validation, test = (questions(gym.problems(split)[:300]) for split in ("train", *HELD_OUT))
    assert train and validation and test and not train & validation and not train & test and not validation & test


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["train", *HELD_OUT]), st.integers(0, 10**6))
def test_seed_split_and_index_name_a_problem(seed, split, index):
    assert task(seed=seed).problems(split)[index] == task(seed=seed).problems(split)[index]


def test_seeds_and_blocks_give_different_problems():
    first, second = (questions(task(seed=seed).problems("train")[: 2 * BLOCK]) for seed in (0, 1))
    assert len(first) > 1.9 * BLOCK
    assert len(first & second) < 5


def test_options_reach_the_task():
    (problem,) = task(options={"min_terms": 2, "max_terms": 2, "max_digits": 1}).problems("train")[:1]
    assert problem.reference["metadata"]["num_terms"] == 2


def test_options_may_be_lists_and_a_task_a_mixture_of_others():
    (problem,) = task("basic_arithmetic", options={"operators": ["*"]}).problems("train")[:1]
    assert "*" in problem.reference["question"] and "+" not in problem.reference["question"]
    mixture = {"datasets": [{"name": "gcd"}, {"name": "lcm", "weight": 2, "config": {"max_value": 20}}]}
    gym = task("composite", options=mixture)
    problems = gym.problems("train")[:8]
    assert {problem.reference["metadata"]["source_dataset"] for problem in problems} == {"gcd", "lcm"}
    verdicts = gym.verify(problems, [f"Answer: {problem.reference['answer']}" for problem in problems])
    assert {verdict.status for verdict in verdicts} == {"right"}
    gym.close()


def test_an_answer_is_one_line_only_where_the_known_one_is():
    assert answer_in("Answer:\n5\nQ: 6", "Answer:", {"answer": "7"}) == "5"
    assert answer_in("Answer: 1 2\n3 4", "Answer:", {"answer": "5 6\n7 8"}) == "1 2\n3 4"
    assert answer_in("Answer: 1 2\n3 4", "Answer:", {"answer": None}) == "1 2\n3 4"


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("chainsum", {}, "the closest are chain_sum.*are printed by python -c"),
        ("chain_sum", {"options": {"digits": 1}}, "has no digits for chain_sum; there are min_terms, max_terms"),
        ("chain_sum", {"options": {"seed": 1}}, "has no seed"),
        ("chain_sum", {"options": {"min_digits": 0}}, "do not suit chain_sum: min_digits must be positive"),
        ("chain_sum", {"options": {"min_digits": "two"}}, "do not suit chain_sum"),
        ("composite", {"options": {"datasets": [{"name": "lmc"}]}}, "do not suit composite: Dataset 'lmc' not regist"),
        ("chain_sum", {"template": "Q:"}, "must contain {question}"),
        ("chain_sum", {"held_out": 1}, "task.held_out=1 is no share"),
        ("chain_sum", {"timeout": 0}, "task.timeout=0 lets"),
    ],
)
def test_settings_that_do_not_exist_are_refused(name, overrides, message):
    with pytest.raises(ValueError, match=message):
        task(name, **overrides)


def test_a_task_of_too_few_questions_is_refused():
    with pytest.raises(ValueError, match="has too few questions: none of 1000 fell into the validation split"):
        task("coin_flip", held_out=1e-9)


EVALUATING = [
    "countdown", "puzzle24", "polynomial_multiplication", "simple_integration", "spiral_matrix", "binary_matrix",
    "string_insertion", "n_queens",
]  # fmt: skip
SAME = ("simple_integration", "intermediate_integration")  # one scorer for both
# Which user a cage is for does not depend on what is evaluated in it: an expression and a list are enough.
TRIED = [*((name, False) for name in EVALUATING), ("countdown", True), ("spiral_matrix", True)]


@pytest.fixture(scope="module")
def gyms():
    return {name: task(name, timeout=0.25, held_out=0.5) for name in EVALUATING}  # where each split is soon found


@pytest.fixture(scope="module")
def servers(gyms):
    """By the command that starts it: one for all of these tasks."""
    own = [gym.judges.pool.settings for gym in gyms.values()]
    settings = replace(own[0], warm=[call for each in own for call in each.warm])
    made = {}

    def of(command):
        if command not in made:
            made[command] = Pool(replace(settings, command=command), 1)
        return made[command]

    yield of
    for pool in made.values():
        pool.close()


def test_two_tasks_have_one_scorer_so_that_hostile_answers_need_be_tried_on_one():
    first, second = (inspect.getsource(DATASETS[name][0].score_answer) for name in SAME)
    assert first == second.replace("isinstance(answer, str)", "answer is not None")
    assert len({CHECKS[name] for name in SAME}) == 1 and set(SAME) == set(integrals.TASKS)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a cage")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "user"), TRIED)
def test_no_hostile_answer_does_what_it_wants_or_forges_its_own_verdict(name, user, gyms, servers, request):
    """These scorers evaluate what they are given. Hostile answers are tried as they are, and as a sum or a list."""
    gym, bait = gyms[name], Bait(Path(FOLDER))
    problem = gym.problems("train")[0]
    server = gym.judges.pool = servers(request.getfixturevalue("another_user") if user else COMMAND)
    right = f"Answer: {problem.reference['answer']}"
    other = "Answer: [%s]" if "matrix" in name or "queens" in name else "Answer: 1 + %s"
    first = [f"Answer: {answer}" for answer in (*EXPRESSIONS, *HEAVY)] + TEXTS
    second = [other % answer for answer in EXPRESSIONS]
    try:
        gym.verify([problem], [right])
        process = server.workers[0].process

        def judge(texts):
            return gym.verify([problem] * len(texts), texts)

        for turn, texts in enumerate((first, second)):
            assert bought(judge, texts, right, "Answer: 1 + 1", turn) == {}
        assert server.workers[0].process is process and process.poll() is None and bait.untouched()
    finally:
        shutil.rmtree(bait.path)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process of its own")
def test_known_answers_score_as_much_where_code_in_answers_is_guarded(tmp_path):
    """Of all tasks, in a process of their own, as a guard stays."""
    child = os.fork()
    if not child:
        code = 3
        with contextlib.suppress(BaseException):
            (tmp_path / "worse").write_text(" ".join(guarded_scores_worse()))
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / "worse").read_text() == ""


def guarded_scores_worse():
    entries = {}
    for name in sorted(DATASETS.keys() - {"composite"}):  # which has no default options
        made = dataset(name, (), 0)
        entries |= {(name, index): made[index] for index in range(3)}
    before = {key: score(key[0], (), entry, str(entry["answer"])) for key, entry in entries.items()}
    guard()
    return [f"{key[0]}[{key[1]}]" for key, entry in entries.items() if known_score(key[0], entry) != before[key]]


def known_score(name, entry):
    """None where the scorer raises."""
    with contextlib.suppress(Exception):
        return score(name, (), entry, str(entry["answer"]))
