from dataclasses import replace

import pytest

from isentropic.evaluation.context import check_known, fitted, needed
from isentropic.evaluation.questions import AskedSet
from isentropic.sampler import Decoding

DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=100, stop=None)
SHORT = AskedSet("short", "short", [], [], [[1] * 4, [1] * 6], 1, DECODING)
LONG = replace(SHORT, name="long", base="long", prompts=[[1] * 4, [1] * 30, [1]])


def test_what_fits_is_left_as_it_is():
    assert fitted([SHORT, LONG], 130) == ([SHORT, LONG], []) and needed([SHORT, LONG]) == 130


def test_answers_are_cut_to_what_the_model_reads_and_it_is_said():
    (short, long), said = fitted([SHORT, LONG], 110)
    assert short is SHORT and long.decoding == replace(DECODING, max_tokens=80) and needed([short, long]) == 110
    assert said == [
        "long: answers have at most 80 tokens in place of the protocol's 100, as the model reads 110 and the longest "
        "prompt has 30"
    ]


def test_a_prompt_without_room_for_an_answer_is_refused():
    with pytest.raises(ValueError, match="problem 2 of long has a prompt of 30 tokens, and the model reads 30"):
        fitted([SHORT, LONG], 30)
    with pytest.raises(ValueError, match=r"a shorter evaluation\.protocol\.template or a model that reads more"):
        fitted([LONG], 30)


def test_tokens_that_the_model_does_not_have_are_refused():
    other = replace(SHORT, name="other", prompts=[[1, 2], [], [3, 24]])
    check_known([SHORT, other], 25)
    with pytest.raises(
        ValueError, match="a prompt of other has the token 24, and the model has 24; its tokenizer is that of"
    ):
        check_known([SHORT, other], 24)
