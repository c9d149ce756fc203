import pytest

from isentropic.reward.repetition import Repetition


@pytest.mark.parametrize(
    ("tokens", "size", "value"),
    [
        ([1, 2, 3, 4], 2, 0),
        ([1, 2, 1, 2, 1], 2, -0.5),  # 12 21 12 21
        ([7] * 11, 2, -0.9),
        ([7] * 11, 1, -10 / 11),
        ([7, 7], 3, 0),
    ],
)
def test_the_share_of_ngrams_written_before(answer, tokens, size, value):
    assert Repetition(weight=1.0, size=size)([answer(tokens=tokens)]) == [pytest.approx(value)]


def test_an_ngram_has_a_token():
    with pytest.raises(ValueError, match=r"reward\.repetition\.size=0 must be at least 1 token"):
        Repetition(weight=1.0, size=0)
