import pytest

from isentropic.planning.lengths import Lengths


def test_a_share_of_one_makes_all_answers_equal():
    lengths = Lengths(prompt=5, share=1.0, kept=1.0)
    assert lengths.answers(3, 8) == [8, 8, 8]
    assert (lengths.mean(8), lengths.square(8)) == (8, 64)


@pytest.mark.parametrize("share", [0.2, 0.4, 0.5, 0.8])
def test_answers_have_the_mean_and_the_square_that_they_are_said_to_have(share):
    lengths = Lengths(prompt=5, share=share, kept=1.0)
    answers = lengths.answers(2000, 10_000)
    assert answers == sorted(answers) and answers[-1] == 10_000
    assert sum(answers) / 2000 == pytest.approx(lengths.mean(10_000), rel=0.01)
    assert sum(a * a for a in answers) / 2000 == pytest.approx(lengths.square(10_000), rel=0.01)


def test_the_one_answer_of_a_rank_is_the_longest():
    assert Lengths(prompt=5, share=0.4, kept=1.0).answers(1, 9) == [9]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 0.0}, r"lengths\.share=0\.0 is no share"),
        ({"kept": 1.5}, r"lengths\.kept=1\.5 is no share"),
        ({"prompt": 0}, r"lengths\.prompt=0 must be at least 1"),
        ({"observed": -1}, r"lengths\.observed=-1 is a number of tokens"),
    ],
)
def test_shares_and_prompts_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Lengths(**({"prompt": 5, "share": 0.4, "kept": 0.5} | settings))
