from dataclasses import replace

import pytest

from isentropic.sampler import Decoding
from isentropic.sampler.validation import check_model, check_requests

DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=8, stop=None)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("min_p", -0.1),
        ("min_p", 1.0),
        ("max_tokens", 0),
        ("stop", ""),
    ],
)
def test_settings_that_no_sampler_can_follow_are_refused(setting, value):
    with pytest.raises(ValueError, match=f"^{setting}={value!r} is "):
        replace(DECODING, **{setting: value})


def test_a_prompt_as_long_as_the_context_is_refused_with_both_lengths():
    with pytest.raises(ValueError, match=r"prompt of 20 tokens .*max_model_len=20"):
        check_requests([[2], [2] * 20], 1, [0, 1], DECODING, 20)


def test_a_prompt_whose_completion_would_not_fit_is_refused():
    check_requests([[2] * 12], 1, [0], DECODING, 20)
    with pytest.raises(ValueError, match=r"prompt of 13 tokens and max_tokens=8 .*max_model_len=20"):
        check_requests([[2] * 13], 1, [0], DECODING, 20)


def test_an_empty_prompt_is_refused():
    with pytest.raises(ValueError, match="prompt of 0 tokens"):
        check_requests([[2], []], 1, [0, 1], DECODING, 20)


def test_each_prompt_has_one_seed():
    with pytest.raises(ValueError, match="2 prompts came with 1 seeds"):
        check_requests([[2], [3]], 1, [0], DECODING, 20)


def test_seeds_of_one_prompt_closer_than_count_are_refused():
    with pytest.raises(ValueError, match="seeds 8 and 11 of the same prompt are closer than count=4"):
        check_requests([[2], [3], [2]], 4, [11, 9, 8], DECODING, 20)
    check_requests([[2], [3], [2]], 4, [12, 9, 8], DECODING, 20)


def test_negative_seeds_are_refused():
    with pytest.raises(ValueError, match="from -1 to 3"):
        check_requests([[2], [3]], 4, [3, -1], DECODING, 20)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"path=.* is not a model folder"):
        check_model(str(tmp_path / "nothing"), 20)


def test_a_context_longer_than_the_model_reads_is_refused(tiny_model):
    check_model(tiny_model, 512)
    with pytest.raises(ValueError, match="max_model_len=513 is more than the 512 tokens"):
        check_model(tiny_model, 513)


def test_greedy_completions_of_one_prompt_would_all_be_the_same():
    greedy = replace(DECODING, temperature=0.0)
    check_requests([[1, 2]], 1, [0], greedy, 64)
    with pytest.raises(ValueError, match="count=2 completions at temperature=0 would all be the same; take count=1"):
        check_requests([[1, 2]], 2, [0], greedy, 64)
