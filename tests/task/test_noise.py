import pytest

from isentropic.task.noise import Noise


def test_prompts_have_as_many_words_and_are_the_same_for_the_same_seed():
    task = Noise(words=5, vocabulary=10, seed=0)
    prompts = [problem.prompt for problem in task.problems("train")[:20]]
    assert prompts == [problem.prompt for problem in Noise(words=5, vocabulary=10, seed=0).problems("train")[:20]]
    assert all(len(prompt.split()) == 5 for prompt in prompts)
    assert {word for prompt in prompts for word in prompt.split()} == {f"w{i}" for i in range(10)}
    assert len({*prompts, *(problem.prompt for problem in task.problems("test")[:20])}) == 40


def test_about_half_of_all_answers_are_right_and_the_same_answer_always_is():
    task = Noise(words=5, vocabulary=10, seed=0)
    texts = [f"w{i}" for i in range(1000)]
    verdicts = task.verify([task.problems("train")[0]] * 1000, texts)
    assert verdicts == task.verify([task.problems("train")[1]] * 1000, texts)
    assert 450 < sum(verdict.correct for verdict in verdicts) < 550
    assert all(verdict.reward == verdict.correct == (verdict.status == "right") for verdict in verdicts)


def test_prompts_of_nothing_are_refused():
    with pytest.raises(ValueError, match=r"task.words=0 must be at least 1"):
        Noise(words=0, vocabulary=10, seed=0)
