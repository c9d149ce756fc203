from dataclasses import dataclass

import pytest
import torch

from isentropic.reward import Reward, RewardError
from isentropic.reward.correct import Correct
from isentropic.reward.total import Rewards, Tally, means
from isentropic.reward.trl import Trl
from isentropic.reward.verl import Verl

SETTINGS = {"timeout": 30.0, "on_error": "stop", "isolated": False, "workers": 1, "memory": 4.0}


def trl(*paths, weights=None, **settings):
    return Trl(functions=list(paths), weights=weights, **(SETTINGS | settings))


def verl(path, **settings):
    return Verl(weight=1.0, function=path, **(SETTINGS | settings))


@dataclass(frozen=True)
class Given(Reward):
    """One of one's own package."""

    weight: float
    values: list

    def __call__(self, answers):
        return self.values


def test_the_verdict_alone_is_the_total_to_the_last_digit(answer):
    rewards = [0.1 + 0.2, 1 / 3, 0.0, 1.0, 1e-17]
    scores = Rewards({"correct": Correct(weight=1.0)})([answer(reward=reward) for reward in rewards])
    assert scores.total == rewards and scores.by_name == {"correct": rewards}


def test_rewards_add_up_by_weight_and_none_counts_as_nothing(answer):
    rewards = Rewards({"correct": Correct(weight=2.0), "given": Given(0.5, [1, None, torch.tensor([3.0])])})
    scores = rewards([answer(reward=r) for r in (1.0, 0.5, 0.0)])
    assert scores.total == [2.5, 1.0, 1.5]
    assert scores.by_name["given"] == [1.0, None, 3.0]
    tally = Tally()
    tally.add(scores)
    assert means(tally.sums, rewards) == {"reward/correct": 0.5, "reward/given": 2.0}  # of those to which it applies


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("raises", r"raises\) raised ZeroDivisionError: .* in .*mine\.py:\d+"),
        ("hangs", r"hangs\) did not come back within 0\.2 seconds"),
        ("a_string", r"a_string\) returned '1\.0', where a list with a number for each of 3 answers must be"),
        ("strings", r"strings\) returned 'right', which is a str and no number, for answer 1 of group 7"),
        ("one_too_few", r"one_too_few\) gave 2 values for 3 answers"),
        ("infinite", r"infinite\) returned inf, which is not finite, for answer 3 of group 7 \('four'\)"),
        ("nothing", r"nothing\) returned None, where a list"),
        ("one_tensor", r"one_tensor\) returned tensor\(1\.\), where a list"),
        ("a_table", r"a_table\) returned tensor\(\[1\., 1\.\]\), which is a Tensor and no number, for answer 1"),
        ("beyond", r"beyond\) returned 1000\d+, which is beyond all floats, for answer 1"),
        ("leaves", r"leaves\) raised SystemExit: 3 in .*mine\.py"),
        ("unprintable", r"unprintable\) returned a Secret, which is a Secret and no number, for answer 1"),
        ("a_set", r"a_set\) returned \{0\.0, 1\.0, 2\.0\}, where a list"),
        ("cancelled", r"cancelled\) raised CancelledError in .*mine\.py:\d+"),
        ("mute", r"mute\) raised Mute in .*mine\.py:\d+"),
        ("generator", r"generator\) returned <generator .*, where a list"),
        ("signals", r"signals\) returned nan, which is not finite, for answer 1"),
        ("a_frame", r"a_frame\) returned .*, where a list"),
        ("broken", r"broken\) returned .*, where a list"),
        ("broken_items", r"broken_items\) returned .*, which is a Broken and no number, for answer 1"),
    ],
)
def test_what_a_function_does_wrong_is_one_sentence_and_the_run_may_go_on(functions, answer, name, sentence):
    answers = [answer(text, place=place) for place, text in enumerate(("one!", "two", "four"))]
    limit = 0.2 if name == "hangs" else 30.0
    with pytest.raises(RewardError, match=rf"^reward\.{name} \(.*{sentence}.*on_error=zero would go on") as caught:
        Rewards({"trl": trl(functions(name), timeout=limit)})(answers)
    assert "\n" not in str(caught.value)
    going = Rewards({"correct": Correct(1.0), "trl": trl(functions(name), timeout=limit, on_error="zero")})
    with pytest.warns(UserWarning, match=sentence):
        scores = going(answers)
    kept = {"infinite": [1.0, 1.0, 0.0]}.get(name, [0.0] * 3)
    assert scores.by_name[name] == kept and scores.total == [1 + value for value in kept]
    assert scores.failed[name] == (1 if name == "infinite" else 3)
    tally = Tally()
    tally.add(scores)
    assert means(tally.sums, going)[f"reward/{name}_failed"] == scores.failed[name] / 3


def test_the_answer_for_which_a_function_raises_is_found(functions, answer):
    answers = [answer(text, place=place) for place, text in enumerate(("four", "two", "one"))]
    with pytest.raises(RewardError, match=r"raised ZeroDivisionError.* for answer 2 of group 7 \('two'\)"):
        Rewards({"trl": trl(functions("raises"))})(answers)


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), -float("inf"), torch.tensor(float("nan")), "1", [1.0], 1j, -1e19]
)
def test_what_is_no_finite_number_is_refused_from_any_reward(answer, bad):
    with pytest.raises(RewardError, match=r"reward\.given \(Given\) returned .* for answer 2 of group 7"):
        Rewards({"given": Given(1.0, [0.5, bad])})([answer(place=0), answer(place=1)])


def test_one_bad_answer_of_a_function_for_single_answers_costs_that_answer_alone(functions, answer):
    texts = ["four", "hang", "five", "leave"]
    answers = [answer(text, place=place) for place, text in enumerate(texts)]
    rewards = Rewards({"verl": verl(functions("plain_score"), timeout=0.2, on_error="zero")})
    with pytest.warns(UserWarning, match=r"did not come back within 0\.2 seconds.* for answer 2 of group 7"):
        scores = rewards(answers)
    assert scores.by_name["verl"] == [1.0, 0.0, 0.0, 0.0] and scores.failed["verl"] == 2


def test_nothing_to_learn_from_and_two_of_one_name_are_refused(functions):
    with pytest.raises(ValueError, match=r"reward=\[\] leaves nothing to learn from; take reward=\[correct\]"):
        Rewards({})
    with pytest.raises(ValueError, match=r"reward\.correct has a weight of inf for correct; it must be finite"):
        Rewards({"correct": Correct(float("inf"))})
    with pytest.raises(ValueError, match=r"reward\.trl brings length, which another reward is called"):
        Rewards({"length": Correct(1.0), "trl": trl(functions("length"))})
