import re

import pytest

from isentropic.task import Problem, Verdict
from isentropic.task.guess import Guess
from isentropic.task.prompts import fill

RIGHT, WRONG, VOID = Verdict(1.0, True, "right"), Verdict(0.0, False, "wrong"), Verdict(0.0, False, "void")


def guess(**settings):
    usual = {"numbers": 63, "largest": 999, "guesses": 6, "template": "{question}:", "marker": "", "higher": "+"}
    return Guess(**(usual | {"lower": "-", "held_out": 0.2, "seed": 0, "stop": ";"} | settings))


def played(task, problem, seed, strategy):
    """The replies to a strategy, which is given the ends of what is left."""
    episode, (low, high) = task.begin(problem, seed), problem.reference
    replies = []
    while not replies or replies[-1].verdict is None:
        number = strategy(low, high)
        replies.append(episode.step(f"{number};"))
        low, high = (number + 1, high) if replies[-1].text == "+" else (low, number - 1)
    return replies


@pytest.mark.golden
def test_the_world_says_where_the_number_is_until_guesses_are_used_up():
    task, problem = guess(guesses=3), Problem("1-63:", (1, 63))
    number = task.begin(problem, 0).number
    episode = task.begin(problem, 0)
    assert episode.step(f"{number - 1};").text == "+" and episode.step(f"{number + 1};").text == "-"
    assert episode.step(f"{number};").verdict == RIGHT
    episode = task.begin(problem, 0)
    assert [episode.step(f"{number + away};").verdict for away in (1, 2, 3)] == [None, None, WRONG]
    assert task.begin(problem, 0).step(f"{number}").verdict == RIGHT  # where no stop was written


def test_halving_always_arrives_and_counting_up_does_not():
    task = guess()
    halved = [played(task, task.problems("train")[i], i, lambda low, high: (low + high) // 2) for i in range(200)]
    counted = [played(task, task.problems("train")[i], i, lambda low, high: low) for i in range(200)]
    assert all(replies[-1].verdict == RIGHT and len(replies) <= 6 for replies in halved)
    assert sum(replies[-1].verdict == RIGHT for replies in counted) < 50
    assert len({len(replies) for replies in halved}) > 2


@pytest.mark.parametrize("text", ["", ";", "x", "3 or 4;", "3.5;", "9" * 5000])
def test_what_is_no_number_is_void_and_ends_the_episode(text):
    reply = guess().begin(Problem("1-63:", (1, 63)), 0).step(text)
    assert reply.verdict == VOID and reply.void


def test_a_marker_says_where_the_guess_is():
    task = guess(marker="Guess:", stop=None)
    episode = task.begin(Problem("1-63:", (1, 63)), 5)
    assert episode.step("5 is low.\nGuess: 70").text == "-"
    assert episode.step(f"Guess: 1, no\nGuess: **{episode.number}**").verdict == RIGHT
    assert task.begin(Problem("1-63:", (1, 63)), 5).step("33").verdict == VOID


def test_numbers_follow_the_seed_of_the_world_and_are_of_the_range():
    task, problem = guess(), guess().problems("train")[0]
    numbers = [task.begin(problem, seed).number for seed in range(300)]
    assert numbers == [task.begin(problem, seed).number for seed in range(300)]
    low, high = problem.reference
    assert min(numbers) >= low and max(numbers) <= high and len(set(numbers)) > 50


def test_splits_share_no_range_and_problems_to_be_judged_by_do_not_follow_the_seed():
    task, other = guess(), guess(seed=1)
    seen = {split: {task.problems(split)[i].prompt for i in range(200)} for split in ("train", "validation", "test")}
    assert not seen["train"] & (seen["test"] | seen["validation"]) and not seen["test"] & seen["validation"]
    assert (
        task.problems("test")[:9] == other.problems("test")[:9]
        and task.problems("train")[:9] != other.problems("train")[:9]
    )
    low, high = map(int, re.fullmatch(r"(\d+)-(\d+):", task.problems("train")[0].prompt).groups())
    assert (low, high) == task.problems("train")[0].reference and high - low == 62 and high <= 999


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"numbers": 1}, "numbers=1 must be at least 2"),
        ({"guesses": 0}, "guesses=0 must be at least 1"),
        ({"largest": 62}, "largest=62 must be at least 63"),
        ({"largest": 63}, "allow no .* problem; raise largest"),
        ({"held_out": 1.0}, "held_out=1.0"),
        ({"template": "guess"}, "no place for the question"),
        ({"higher": "-"}, "two texts to tell apart"),
        ({"lower": ""}, "two texts to tell apart"),
    ],
)
def test_settings_that_allow_no_game_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        guess(**settings)


def test_a_text_alone_is_not_judged():
    task = guess()
    problem = task.problems("test")[0]
    assert problem.prompt == fill("{question}:", "-".join(map(str, problem.reference)))
    assert [verdict.correct for verdict in task.verify([problem], ["3;"])] == [False] and task.gold(problem) is None
