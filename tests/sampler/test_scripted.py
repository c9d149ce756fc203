from dataclasses import replace

import pytest
import torch

from isentropic.sampler import Completion, Decoding, Request
from isentropic.sampler.scripted import ScriptedSampler

DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=3, stop=None)


@pytest.fixture
def scripted():
    return ScriptedSampler(answers={(5,): [[7, 1], [8]], (6,): [[2, 3, 4, 1]]}, eos=1)


def test_answers_come_in_turn_and_begin_again(scripted):
    first, second = scripted.sample([[5], [5]], 2, [0, 2], DECODING)
    assert first == [Completion([7, 1], None, "stop"), Completion([8], None, "length")]
    assert second == first


def test_an_answer_is_cut_at_max_tokens(scripted):
    assert scripted.sample([[6]], 1, [0], DECODING) == [[Completion([2, 3, 4], None, "length")]]


def test_a_stop_text_ends_an_answer_where_it_can_be_read():
    letters = ScriptedSampler(
        {(5,): [[2, 3, 4, 2, 1]]}, eos=1, decode=lambda tokens: "".join("?$abc"[t] for t in tokens)
    )
    for stop, tokens, finish in (("bc", [2, 3, 4], "stop"), ("cb", [2, 3, 4, 2, 1], "stop"), ("a", [2], "stop")):
        decoding = replace(DECODING, stop=stop, max_tokens=8)
        assert letters.sample([[5]], 1, [0], decoding) == [[Completion(tokens, None, finish)]]


def test_it_has_no_model_to_score_with(scripted):
    assert scripted.score([5, 7]) is None


def test_events_stand_in_the_order_of_the_calls(scripted):
    scripted.start()
    scripted.wake()
    scripted.update_weights([])
    scripted.sample([[5]], 1, [0], DECODING)
    scripted.sleep()
    scripted.stop()
    assert scripted.events == ["start", "wake", "update_weights", "sample", "sleep", "stop"]


def test_load_reads_to_the_end(scripted):
    weights = iter([("a", torch.zeros(1)), ("b", torch.zeros(1))])
    scripted.update_weights(weights)
    assert next(weights, None) is None


def test_each_request_has_a_limit_of_its_own(scripted):
    requests = [Request([6], 0, 2), Request([5], 1, 3), Request([6], 2, 3)]
    assert [one.tokens for one in scripted.write(requests, DECODING)] == [[2, 3], [7, 1], [2, 3, 4]]
