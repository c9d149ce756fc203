from dataclasses import replace
from math import inf, isnan, nan

import pytest
import torch
from fixtures.models import COLOCATED, save_tiny_model
from transformers import AutoModelForCausalLM

from isentropic.policy.batching.micro_batches import widths_of
from isentropic.rollout.collate import Segment, collate, collate_segments, concatenate
from isentropic.rollout.stream import first_groups
from isentropic.sampler import Completion, Decoding, SamplerError
from isentropic.sampler.hf import TransformersSampler
from isentropic.sampler.vllm.colocated import VllmSampler, available
from isentropic.task import Verdict

PAD, EOS = 0, 1
RIGHT, WRONG = Verdict(1.0, True, "right"), Verdict(0.0, False, "wrong")


def batch(*completions, prompts=None):
    prompts = prompts or [[5, 6]] * len(completions)
    return collate(prompts, completions, [RIGHT] * len(completions), *[range(len(completions))] * 2)


def test_rows_are_prompt_completion_padding():
    prompts = [[5, 6], [7]]
    answers = [Completion([8, EOS], [-0.5, -0.25], "stop"), Completion([9, 9, 9, 9], None, "length")]
    made = collate(prompts, answers, [RIGHT, WRONG], [3, 9], [5, 2**62])
    assert made.problem.tolist() == [5, 2**62]
    assert made.tokens.tolist() == [[5, 6, 8, EOS, 0], [7, 9, 9, 9, 9]]
    assert made.mask.int().tolist() == [[0, 0, 1, 1, 0], [0, 1, 1, 1, 1]]
    assert made.group.tolist() == [3, 9]
    assert made.reward.tolist() == [1, 0] and made.correct.tolist() == [True, False]
    assert made.sampler_logp[0, 2:4].tolist() == [-0.5, -0.25]
    assert made.sampler_logp.isnan().int().tolist() == [[1, 1, 0, 0, 1], [1] * 5]


def test_the_mask_follows_lengths_whatever_the_ids():
    odd, plain = Completion([PAD, EOS, 8, PAD, EOS], None, "stop"), Completion([8], None, "length")
    made = batch(odd, plain, prompts=[[EOS, PAD], [5]])
    assert made.mask.int().tolist() == [[0, 0, 1, 1, 1, 1, 1], [0, 1, 0, 0, 0, 0, 0]]


def test_truncation_is_what_the_engine_says_not_what_the_last_id_is():
    made = batch(Completion([8, EOS], None, "length"), Completion([8, 8], None, "stop"))
    assert made.truncated.tolist() == [True, False]


def test_an_empty_completion_is_a_row_without_chosen_tokens():
    made = batch(Completion([], [], "stop"), Completion([8], [-1.0], "stop"))
    assert made.mask.sum(-1).tolist() == [0, 1]
    alone = batch(Completion([], None, "stop"))
    assert alone.tokens.tolist() == [[5, 6]] and not alone.mask.any()


def test_log_probs_of_another_length_are_refused():
    with pytest.raises(ValueError, match="the sampler gave 1 log-probs for 2 tokens; each token has one"):
        batch(Completion([8, 9], [-1.0], "stop"))


def test_batches_join_at_the_width_of_the_widest():
    short, long = batch(Completion([8], [-1.0], "stop")), batch(Completion([8, 9, EOS], [-1.0, -2.0, -3.0], "stop"))
    made = concatenate([short, long[:0], long])
    assert made.tokens.tolist() == [[5, 6, 8, 0, 0], [5, 6, 8, 9, EOS]]
    assert made.mask.sum(-1).tolist() == [1, 3]
    assert [isnan(x) for x in made.sampler_logp[0].tolist()] == [True, True, False, True, True]
    assert made.reward.dtype == torch.float32 and len(made.correct) == 2


@pytest.mark.golden
def test_what_is_observed_between_turns_is_in_the_row_and_not_in_the_mask():
    row = [
        Segment([5, 6], None, chosen=False),
        Segment([8, 8], [-0.5, -0.25], chosen=True),
        Segment([7, 7, 7], None, chosen=False),
        Segment([9, 9, 9], [-1.0, -2.0, -3.0], chosen=True),
    ]
    for rows, width in ((row, 10), ([*row, Segment([4, 4], None, chosen=False)], 12)):
        made = collate_segments([rows], [RIGHT], [False], [False], [2], [3], [5])
        assert made.mask[0, :10].int().tolist() == [0, 0, 1, 1, 0, 0, 0, 1, 1, 1] and not made.mask[0, 10:].any()
        assert made.calls.tolist() == [2]
        assert made.turn[0, :10].tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]
        assert int(made.mask.sum()) == 5 and made.tokens.shape == (1, width)
        assert widths_of(made.mask).tolist() == [10]  # a last observation costs nothing
        assert made.sampler_logp.isnan().int()[0, :10].tolist() == [1, 1, 0, 0, 1, 1, 1, 0, 0, 0]


def test_rows_of_one_turn_are_what_they_were():
    made = batch(Completion([8, EOS], None, "stop"), Completion([8, 8, 8], None, "length"))
    assert not made.turn.any() and not made.void.any()
    assert concatenate([made]) is made and first_groups(made, 2) is made
    assert first_groups(concatenate([made, replace(made, group=made.group + 9)]), 2).group.tolist() == [0, 1]
    joined = concatenate([made, made[:1]])
    assert joined.turn.shape == joined.tokens.shape and joined.void.shape == (3,)


def test_log_probs_that_are_no_numbers_count_as_if_the_sampler_had_not_said():
    with pytest.warns(UserWarning, match="log-probs that are NaN or infinite"):
        made = batch(Completion([8, 8, 9, EOS], [-0.5, nan, -inf, 0.0], "stop"))
    assert made.sampler_logp[0, 2:].isnan().tolist() == [False, True, True, False] and made.mask.sum() == 4


@pytest.mark.parametrize("engine", ["transformers", pytest.param("vllm", marks=pytest.mark.slow)])
def test_a_sampler_whose_weights_are_infinite_is_said_to_be_so(tmp_path, engine):
    model = AutoModelForCausalLM.from_pretrained(save_tiny_model(tmp_path, tied=False))
    with torch.no_grad():
        model.model.norm.weight[0] = inf
    model.save_pretrained(tmp_path)
    path = str(tmp_path)
    if engine == "vllm" and not available():
        pytest.skip("vLLM is not installed")
    sampler = VllmSampler(path, **COLOCATED) if engine == "vllm" else TransformersSampler(path, "float32", "cpu", 8, 64)
    sampler.start()
    decoding = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=6, stop=None)
    try:
        ((one,), (other,)) = sampler.sample([[3, 4], [5]], 1, [0, 1], decoding)
        with pytest.raises(SamplerError, match=r"no finite log-prob for any of \d+ tokens: its weights or"):
            batch(one, other)
    finally:
        sampler.stop()


def test_a_sampler_that_is_certain_says_zero(tmp_path):
    model = AutoModelForCausalLM.from_pretrained(save_tiny_model(tmp_path, tied=False))
    with torch.no_grad():
        model.lm_head.weight.mul_(1e4)
    model.save_pretrained(tmp_path)
    sampler = TransformersSampler(str(tmp_path), "float32", "cpu", 8, 64)
    sampler.start()
    decoding = Decoding(temperature=1.0, top_p=0.9, top_k=0, min_p=0.0, max_tokens=6, stop=None)
    assert sampler.sample([[3, 4]], 1, [0], decoding)[0][0].logp == [0.0] * 6
