import pytest

from isentropic.task import Problem, Verdict
from isentropic.task.lookup import Lookup, Search

RIGHT, WRONG, VOID = Verdict(1.0, True, "right"), Verdict(0.0, False, "wrong"), Verdict(0.0, False, "void")


def lookup(**settings):
    usual = {"keys": 20, "largest": 999, "hops": 2, "template": "{question} {hops}", "marker": "Answer:"}
    return Lookup(**(usual | {"held_out": 0.2, "seed": 0} | settings))


@pytest.fixture
def search():
    return Search({3: 8, 8: 5, 5: 3}, 5, "Answer:")


@pytest.mark.golden
def test_two_calls_lead_to_the_answer(search):
    replies = [search.step(text) for text in ("I call get(3)", "so get(8)", "Answer: 5")]
    assert [(reply.text, reply.calls, reply.failed) for reply in replies] == [("8\n", 1, 0), ("5\n", 1, 0), ("", 0, 0)]
    assert [reply.verdict for reply in replies] == [None, None, RIGHT]
    assert search.step("Answer: 8").verdict == WRONG
    assert search.step("Answer: eight").verdict == Verdict(0.0, False, "unparseable")


def test_results_of_one_turn_stand_apart_and_what_is_not_there_is_said(search):
    reply = search.step("get(3) get(4) get(3)")
    assert (reply.text, reply.more, reply.calls, reply.failed) == ("8\n", ("nothing\n", "8\n"), 3, 1)
    assert search.step("get(3)" * 1000).calls == 64


def test_a_call_after_an_answer_is_answered_and_an_answer_after_a_call_ends(search):
    assert search.step("Answer: 5? I try get(8)").text == "5\n"
    assert search.step("get(8) Answer: 5").verdict == RIGHT


@pytest.mark.parametrize("text", ["", "get()", "get(x)", "get(3", "get(" + "9" * 5000 + ")", "5"])
def test_a_turn_with_neither_is_void(search, text):
    reply = search.step(text)
    assert reply.verdict == VOID and reply.void


@pytest.mark.parametrize("hops", [1, 2, 5])
def test_every_episode_is_solved_by_its_hops_and_not_without(hops):
    task = lookup(hops=hops)
    for index in range(50):
        problem = task.problems("train")[index]
        episode, key = task.begin(problem, index), problem.reference
        assert problem.prompt == f"{key} {hops}" and len(episode.table) == 20
        seen = {key}
        for _ in range(hops):
            key = int(episode.step(f"get({key})").text)
            assert key not in seen and 1 <= key <= 999
            seen.add(key)
        assert episode.step(f"Answer: {key}").verdict == RIGHT
    tables = [task.begin(problem, seed).table for seed in (1, 1, 2)]
    assert tables[0] == tables[1] != tables[2]  # nothing of it could be learnt by heart


def test_splits_share_no_beginning_and_problems_to_be_judged_by_do_not_follow_the_seed():
    task, other = lookup(), lookup(seed=1)
    seen = {split: {task.problems(split)[i].prompt for i in range(200)} for split in ("train", "validation", "test")}
    assert not seen["train"] & (seen["test"] | seen["validation"]) and not seen["test"] & seen["validation"]
    assert task.problems("test")[:9] == other.problems("test")[:9]
    assert task.problems("train")[:9] != other.problems("train")[:9]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hops": 0}, "hops=0 must be at least 1"),
        ({"keys": 2}, "keys=2 must be at least 3"),
        ({"largest": 19}, "largest=19 must be at least 20"),
        ({"keys": 3, "largest": 3}, "allow no .* problem; raise largest"),
        ({"marker": ""}, "marker is empty"),
        ({"template": "begin"}, "no place for the question"),
    ],
)
def test_settings_that_allow_no_question_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        lookup(**settings)


def test_a_text_alone_is_not_judged():
    task = lookup()
    assert not task.verify([Problem("3 2", 3)], ["Answer: 5"])[0].correct and task.gold(Problem("3 2", 3)) is None
