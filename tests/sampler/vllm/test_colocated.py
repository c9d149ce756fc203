import json
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fixtures.models import COLOCATED, SYMBOLS
from fixtures.talk import Talk, check_what_is_read
from transformers import AutoModelForCausalLM

from isentropic.sampler import Decoding, Sampler, SamplerError
from isentropic.sampler.hf import TransformersSampler, process
from isentropic.sampler.vllm.colocated import VllmSampler, available

needs_vllm = pytest.mark.skipif(not available(), reason="vLLM is not installed")

DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=16, stop=None)
PROMPTS = [[2 + (i * j) % 18 for j in range(1 + 3 * i)] for i in range(8)]
SEEDS = [1000 + 4 * i for i in range(8)]
SHARED = [[2 + 7 * j % 18 for j in range(140)] + [2 + i] for i in range(8)]  # a block is 32 tokens on CPU


def settings(path, **changes):
    return VllmSampler(path, **(COLOCATED | changes))


@pytest.fixture(scope="module")
def tied(tiny_model):
    sampler = settings(tiny_model)
    sampler.start()
    yield sampler
    sampler.stop()


@pytest.fixture
def sampler(tied, policy):
    """One engine for all tests, with the folder's weights in it."""
    if tied.engine is None:
        tied.start()
    if not tied.loaded:
        tied.update_weights(policy.state_dict().items())
    return tied


def moved(policy):
    """The policy after a large update."""
    generator = torch.Generator().manual_seed(1)
    for weight in policy.parameters():
        weight.add_(0.2 * torch.randn(weight.shape, generator=generator))
    return policy


def gap(sampler, model, prompts, reference, temperature=1.0, seeds=SEEDS):
    """The largest difference between the engine's log-probs and the model's."""
    groups = sampler.sample(prompts, 4, seeds, replace(DECODING, temperature=temperature))
    return max(
        abs(ours - theirs)
        for prompt, group in zip(prompts, groups, strict=True)
        for completion in group
        for ours, theirs in zip(completion.logp, reference(model, prompt, completion.tokens, temperature), strict=True)
    )


def tokens_of(groups):
    return [[completion.tokens for completion in group] for group in groups]


def text(tokens):
    """Ids beyond the symbols have none."""
    return "".join(SYMBOLS[token] for token in tokens if token < len(SYMBOLS))


def random_state():
    """Not Python's own: the type checks of the tests draw from it."""
    return np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()


def test_settings_it_does_not_know_are_refused():
    with pytest.raises(ValueError, match="dtype=float16 is not one of float32, bfloat16"):
        settings("model", dtype="float16")
    with pytest.raises(ValueError, match="load_format=pt is not one of auto, dummy"):
        settings("model", load_format="pt")
    with pytest.raises(ValueError, match="sleep_level=3 is not 0, 1 or 2"):
        settings("model", sleep_level=3)


def test_ranks_that_cannot_be_parted_into_engines_are_refused():
    with pytest.raises(ValueError, match="logprobs=some is not one of all, sample, none"):
        settings("model", logprobs="some")
    with pytest.raises(ValueError, match="tensor_parallel_size=0 is not at least 1"):
        settings("model", tensor_parallel_size=0)
    with pytest.raises(ValueError, match="tensor_parallel_size=2 does not divide the 3 ranks"):
        settings("model", tensor_parallel_size=2).check_ranks(3)


def test_a_folder_without_a_model_is_refused_before_the_engine_starts(tmp_path):
    with pytest.raises(ValueError, match=r"path=.* is not a model folder"):
        settings(str(tmp_path)).start()


@needs_vllm
@pytest.mark.parametrize("temperature", [0.6, 0.7, 1.0])
def test_log_probs_are_of_the_scaled_distribution(sampler, policy, reference, temperature):
    assert gap(sampler, policy, PROMPTS, reference, temperature) < 1e-4


@needs_vllm
def test_the_ratio_of_an_on_policy_step_is_one_at_temperature_0_6(sampler, policy, reference):
    cool = replace(DECODING, temperature=0.6)
    prompt, completion = PROMPTS[3], sampler.sample([PROMPTS[3]], 1, [0], cool)[0][0]
    sampler_logp = torch.tensor(completion.logp)
    scaled = torch.tensor(reference(policy, prompt, completion.tokens, 0.6))
    unscaled = torch.tensor(reference(policy, prompt, completion.tokens, 1.0))
    assert torch.allclose((scaled - sampler_logp).exp(), torch.ones_like(scaled), atol=1e-4)
    assert ((unscaled - sampler_logp).exp() - 1).abs().max() > 0.05


@needs_vllm
def test_filters_renormalise_the_log_probs_over_what_they_keep(sampler, policy):
    narrow = replace(DECODING, top_p=0.5, top_k=6, min_p=0.01, temperature=1.3)
    for prompt, group in zip(PROMPTS, sampler.sample(PROMPTS, 4, SEEDS, narrow), strict=True):
        for completion in group:
            logits = policy(torch.tensor([prompt + completion.tokens])).logits[0, len(prompt) - 1 : -1]
            drawn = torch.tensor(completion.tokens)[:, None]
            ours, full = torch.tensor(completion.logp), (logits / 1.3).log_softmax(-1).gather(1, drawn)[:, 0]
            assert torch.allclose(ours, process(logits, narrow).gather(1, drawn)[:, 0], atol=1e-4)
            assert (ours - full).min() > 0.01  # the log of the kept mass, which the trainer would mistake for a ratio


@needs_vllm
def test_the_transformers_sampler_agrees(sampler, tiny_model):
    other = TransformersSampler(tiny_model, dtype="float32", device="cpu", max_model_len=128, max_num_seqs=64)
    other.start()
    tokens = PROMPTS[7] + sampler.sample(PROMPTS[7:], 1, [0], DECODING)[0][0].tokens
    assert sampler.score(tokens) == pytest.approx(other.score(tokens), abs=1e-4)


@needs_vllm
def test_at_temperature_zero_the_likeliest_tokens_come_as_from_transformers(sampler, tiny_model):
    other = TransformersSampler(tiny_model, dtype="float32", device="cpu", max_model_len=256, max_num_seqs=256)
    other.start()
    greedy = replace(DECODING, temperature=0.0)
    ours, theirs = (one.sample(PROMPTS, 1, SEEDS, greedy) for one in (sampler, other))
    assert [one.tokens for (one,) in ours] == [one.tokens for (one,) in theirs]
    assert [one.tokens for (one,) in sampler.sample(PROMPTS, 1, [1] * 8, greedy)] == [one.tokens for (one,) in ours]


@needs_vllm
def test_scores_are_at_temperature_one_and_of_every_token_but_the_first(sampler, policy, reference):
    tokens = PROMPTS[5]
    assert sampler.score(tokens) == pytest.approx(reference(policy, tokens[:1], tokens[1:], 1.0), abs=1e-4)
    with pytest.raises(ValueError, match="256 tokens cannot be scored"):
        sampler.score([2] * 256)


@needs_vllm
def test_a_seed_gives_the_same_tokens_in_any_batch(sampler):
    together = tokens_of(sampler.sample(PROMPTS, 4, SEEDS, DECODING))
    backwards = tokens_of(sampler.sample(PROMPTS[::-1], 4, SEEDS[::-1], DECODING))[::-1]
    assert together == backwards
    for child in range(4):  # child i is a request of its own with seed + i
        alone = sampler.sample(PROMPTS, 1, [seed + child for seed in SEEDS], DECODING)
        assert [group[child] for group in together] == [group[0].tokens for group in alone]


@needs_vllm
def test_seeds_that_overlap_are_refused_and_spaced_ones_give_other_completions(sampler):
    with pytest.raises(ValueError, match="seeds 0 and 1 of the same prompt are closer than count=4"):
        sampler.sample([PROMPTS[4]] * 2, 4, [0, 1], DECODING)
    first, second = tokens_of(sampler.sample([PROMPTS[4]] * 2, 4, [0, 4], DECODING))
    assert all(tokens not in first for tokens in second)


@needs_vllm
def test_completions_end_with_their_end_token_or_at_the_limit(sampler):
    completions = [c for group in sampler.sample(PROMPTS, 16, [16 * i for i in range(8)], DECODING) for c in group]
    assert {c.finish for c in completions} == {"stop", "length"}
    for completion in completions:
        assert (completion.finish == "stop") == (completion.tokens[-1] == 1)
        assert 1 not in completion.tokens[:-1]
        assert completion.finish == "stop" or len(completion.tokens) == 16
        assert len(completion.logp) == len(completion.tokens)


@needs_vllm
@pytest.mark.parametrize(("logprobs", "told"), [("all", 10), ("sample", 2), ("none", 0)])
def test_log_probs_are_told_of_all_of_a_sample_or_of_none(sampler, policy, reference, monkeypatch, logprobs, told):
    prompts = [[2 + (3 * i + j) % 18 for j in range(5)] for i in range(10)]
    seeds = [4 * i for i in range(10)]
    plain = tokens_of(sampler.sample(prompts, 4, seeds, DECODING))
    monkeypatch.setattr(sampler, "logprobs", logprobs)
    groups = sampler.sample(prompts, 4, seeds, DECODING)
    assert tokens_of(groups) == plain
    assert sampler.returns_logprobs == (logprobs == "all")
    known = [i for i, group in enumerate(groups) if all(c.logp is not None for c in group)]
    assert known == [i for i, group in enumerate(groups) if any(c.logp is not None for c in group)]
    assert len(known) == told
    for i in known:
        for completion in groups[i]:
            assert completion.logp == pytest.approx(reference(policy, prompts[i], completion.tokens, 1.0), abs=1e-4)


@needs_vllm
def test_the_engine_s_own_way_gives_the_same(sampler):
    short = sampler.sample(PROMPTS, 4, SEEDS, DECODING)
    sampler.scheduler.short = False
    own = sampler.sample(PROMPTS, 4, SEEDS, DECODING)
    sampler.scheduler.short = True
    assert tokens_of(short) == tokens_of(own)
    for ours, theirs in zip(short, own, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one.finish == other.finish
            assert one.logp == pytest.approx(other.logp, abs=1e-5)


@needs_vllm
def test_the_stop_text_ends_a_completion_and_stays_in_it(sampler):
    completions = [c for group in sampler.sample(PROMPTS, 4, SEEDS, replace(DECODING, stop="3")) for c in group]
    assert any(c.tokens[-1] == 5 and c.finish == "stop" for c in completions)
    assert not any(5 in c.tokens[:-1] for c in completions)


@needs_vllm
@pytest.mark.parametrize("short", [True, False], ids=["short way", "vLLM's way"])
def test_a_stop_of_several_tokens_ends_a_completion_where_it_first_stands(
    sampler, policy, reference, monkeypatch, short
):
    seeds = [16 * i for i in range(8)]
    plain = tokens_of(sampler.sample(PROMPTS, 16, seeds, DECODING))
    pairs = Counter(two for group in plain for one in group for two in pairwise(one) if 1 < min(two) <= max(two) < 20)
    pair = pairs.most_common(1)[0][0]
    stop = text(pair)
    monkeypatch.setattr(sampler.scheduler, "short", short)
    found = sampler.sample(PROMPTS, 16, seeds, replace(DECODING, stop=stop))
    told = [
        (*two, prompt)
        for prompt, *groups in zip(PROMPTS, found, plain, strict=True)
        for two in zip(*groups, strict=True)
    ]
    for one, whole, prompt in told:
        begun = whole.index(pair[1]) + 1 if pair[1] in whole else len(whole)
        assert one.tokens[:begun] == whole[:begun]  # up to where it is first asked whether that is the stop
        assert stop not in text(one.tokens[:-1])
        assert (one.finish == "stop") == (stop in text(one.tokens) or one.tokens[-1] == 1)
        assert one.finish == "stop" or len(one.tokens) == 16
        assert one.logp == pytest.approx(reference(policy, prompt, one.tokens, 1.0), abs=1e-4)
    assert sum(stop in text(one.tokens) for one, *_ in told) > 3
    assert any(pair[1] in one.tokens[:-1] for one, *_ in told)  # asked about, and gone on


TURNS = [1, 6, 2, 3, 1, 4, 2, 5]


def check_talk(said, policy, reference):
    assert [len(row) for row in said] == TURNS
    for prompt, one in (turn for row in said for turn in row):
        assert one.logp == pytest.approx(reference(policy, prompt, one.tokens, 1.0), abs=1e-4)


@needs_vllm
@pytest.mark.parametrize("stop", [None, "9+"], ids=["own end", "a stop of two tokens"])
def test_rows_that_go_on_by_themselves_write_what_they_write_together(sampler, policy, reference, stop):
    decoding = replace(DECODING, stop=stop)
    apart = Talk(PROMPTS, TURNS).play(sampler.converse, decoding)
    together = Talk(PROMPTS, TURNS).play(partial(Sampler.converse, sampler), decoding)
    assert [[one.tokens for _, one in row] for row in apart] == [[one.tokens for _, one in row] for row in together]
    check_talk(apart, policy, reference)
    check_talk(together, policy, reference)


@needs_vllm
def test_a_row_is_not_held_up_by_the_world_of_another(sampler):
    gate = Event()

    class Waiting(Talk):
        def reply(self, place, completion):
            if place and len(self.said[place]) + 1 == TURNS[place] and sum(map(len, self.said)) + 1 == sum(TURNS) - 1:
                gate.set()  # of row 0, by the last turn of all others
            return super().reply(place, completion)

    talk = Waiting(PROMPTS, TURNS, gates={0: gate})
    assert [len(row) for row in talk.play(sampler.converse, DECODING)] == TURNS and talk.order[-1] == 0


@needs_vllm
def test_a_reply_that_fails_ends_the_conversation_and_leaves_the_engine_as_it_was(sampler):
    plain = tokens_of(sampler.sample(PROMPTS, 4, SEEDS, DECODING))

    class Broken(Talk):
        def reply(self, place, completion):
            if place == 1 and self.said[1]:
                raise OSError("no world")
            return super().reply(place, completion)

    with pytest.raises(OSError, match="no world"):
        Broken(PROMPTS, [40] * 8).play(sampler.converse, DECODING)
    assert not sampler.engine.llm_engine.has_unfinished_requests()
    assert tokens_of(sampler.sample(PROMPTS, 4, SEEDS, DECODING)) == plain


@needs_vllm
def test_a_second_turn_reads_only_what_the_first_did_not(sampler, policy, reference):
    prompts, first = check_what_is_read(sampler, policy, DECODING)
    cached = sampler.read[1]
    again = Talk(prompts, [1, 1]).play(sampler.converse, DECODING)
    assert sampler.read[1] - cached == 256
    for ((prompt, one),) in [*first, *again]:
        assert one.logp == pytest.approx(reference(policy, prompt, one.tokens, 1.0), abs=1e-4)


@needs_vllm
def test_a_prompt_without_room_is_refused_by_its_length(sampler):
    with pytest.raises(ValueError, match=r"prompt of 256 tokens .*max_model_len=256"):
        sampler.sample([[2] * 256], 1, [0], DECODING)


@needs_vllm
def test_seeded_prompts_of_more_tokens_than_a_pass_holds_are_sampled(sampler, policy, reference):
    prompts = [[2 + (i + j * j) % 18 for j in range(100)] for i in range(8)]
    assert gap(sampler, policy, prompts, reference) < 1e-4


@needs_vllm
def test_new_weights_reach_prompts_whose_start_is_cached(sampler, policy, reference):
    assert gap(sampler, policy, SHARED, reference) < 1e-4
    sampler.update_weights(moved(policy).state_dict().items())
    assert gap(sampler, policy, SHARED, reference) < 1e-4
    sampler.loaded = False


@needs_vllm
def test_a_tied_head_moves_with_its_embedding_or_the_load_is_refused(sampler, policy, reference):
    with pytest.raises(ValueError, match=r"1 weights did not come, lm_head.weight among them"):
        sampler.update_weights(moved(policy).named_parameters())
    with pytest.raises(RuntimeError, match="has no weights"):
        sampler.sample(PROMPTS, 1, SEEDS, DECODING)
    sampler.update_weights(policy.state_dict().items())
    assert gap(sampler, policy, PROMPTS, reference) < 1e-4
    sampler.loaded = False


@needs_vllm
def test_a_load_that_fails_midway_leaves_no_engine_to_sample_with(sampler, policy, reference):
    def failing():
        for i, item in enumerate(policy.state_dict().items()):
            if i == 9:
                raise OSError("the disk went away")
            yield item

    with pytest.raises(RuntimeError, match="weights failed at 9 of 25: the disk went away"):
        sampler.update_weights(failing())
    with pytest.raises(RuntimeError, match="has no weights"):
        sampler.score(PROMPTS[4])
    sampler.update_weights(policy.state_dict().items())
    assert gap(sampler, policy, PROMPTS, reference) < 1e-4


@needs_vllm
def test_a_weight_of_another_model_is_refused(sampler, policy):
    with pytest.raises(RuntimeError, match="weight head is not one of the model"):
        sampler.update_weights([("head", torch.zeros(1))])


@needs_vllm
def test_other_dtypes_are_cast_and_the_caller_s_weights_stay_its_own(sampler, policy, reference):
    sampler.update_weights((name, tensor.double()) for name, tensor in policy.state_dict().items())
    assert gap(sampler, policy, PROMPTS, reference) < 1e-4
    before = sampler.score(PROMPTS[4])
    moved(policy)
    assert sampler.score(PROMPTS[4]) == before


@needs_vllm
def test_sleep_on_a_cpu_changes_nothing(sampler, policy, reference):
    if torch.cuda.is_available():
        pytest.skip("the engine is on a GPU")
    sampler.sleep()
    assert gap(sampler, policy, PROMPTS, reference) < 1e-4
    sampler.sleep()
    sampler.wake()
    sampler.update_weights(policy.state_dict().items())
    assert gap(sampler, policy, PROMPTS, reference) < 1e-4


def test_a_card_that_others_fill_while_it_goes_to_sleep_is_one_sentence(tiny_model):
    def sleep(level):
        raise AssertionError("Memory usage increased after sleeping.")

    sampler = settings(tiny_model, sleep_level=2)
    sampler.engine = SimpleNamespace(sleep=sleep)
    with pytest.raises(SamplerError, match=r"another process took .* take sampler\.sleep_level=0"):
        sampler.sleep()


@pytest.mark.slow
@needs_vllm
def test_the_process_is_left_as_it_was(sampler, policy):
    set_threads, threads, state = torch.set_num_threads, torch.get_num_threads(), random_state()
    sampler.stop()
    assert not torch.distributed.is_initialized()
    with pytest.raises(RuntimeError, match="was not started"):
        sampler.sample(PROMPTS, 1, SEEDS, DECODING)
    sampler.start()
    sampler.sample(PROMPTS, 4, SEEDS, DECODING)
    sampler.score(PROMPTS[4])
    sampler.update_weights(policy.state_dict().items())
    assert torch.set_num_threads is set_threads
    assert torch.get_num_threads() == threads
    assert random_state() == state


@pytest.mark.slow
@needs_vllm
def test_an_untied_bfloat16_model_that_starts_without_weights(sampler, tiny_model_untied, reference):
    sampler.stop()
    untied = settings(tiny_model_untied, dtype="bfloat16", load_format="dummy")
    untied.start()
    with pytest.raises(RuntimeError, match="has no weights"):
        untied.sample(PROMPTS, 1, SEEDS, DECODING)
    policy = moved(AutoModelForCausalLM.from_pretrained(tiny_model_untied, dtype=torch.float32).requires_grad_(False))
    untied.update_weights(policy.state_dict().items())
    assert gap(untied, policy, PROMPTS, reference) < 0.5  # of bfloat16; of other weights it is several nats
    untied.stop()


@pytest.fixture(scope="module", params=[1, 2], ids=["an engine each", "one engine"])
def ranks(tiny_model, forks, tmp_path_factory, request):
    """What each of two ranks of a world found."""
    script, folder = Path(__file__).with_name("two_ranks.py"), tmp_path_factory.mktemp("ranks")
    changes = {"load_format": "dummy", "sleep_level": 0, "max_model_len": 64, "tensor_parallel_size": request.param}
    engine = json.dumps(COLOCATED | changes)
    for rank in forks(script, *(([tiny_model, folder, rank, engine], {}) for rank in range(2))):
        assert rank.returncode == 0, rank.stderr
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
@needs_vllm
def test_ranks_of_a_world_have_engines_of_their_own_or_one_together(ranks, policy, reference):
    first, second = ranks
    assert first["left"] == second["left"] == [], "a run that is killed would keep the next from starting"
    assert first["environment"] == ["0", "0", "2"]
    assert second["environment"] == ["1", "1", "2"]
    assert first["total"] == second["total"] == 2
    assert not first["imported"]  # before the start
    assert first["threads"] == second["threads"] == 1
    assert len(first["tokens"]) == 2
    assert len(second["tokens"]) == 3
    assert first["tokens"]["4"] == second["tokens"]["4"]  # a seed and a prompt, whichever rank draws
    assert first["scores"] == second["scores"] == pytest.approx(reference(policy, [2], [3, 4, 5], 1.0), abs=1e-4)


@pytest.mark.slow
@needs_vllm
def test_ranks_whose_episodes_end_after_one_and_six_turns_do_not_wait_for_each_other(ranks, policy):
    for rank, said in enumerate(ranks):
        assert said["turns"] == [7, 7]  # 1 on the one, 6 on the other
        for batch in said["batches"]:
            expected = []
            for tokens, mask, turn in batch["rows"]:
                assert max(turn) == (0, 5)[rank]
                logp = policy(torch.tensor([tokens])).logits[0].log_softmax(-1)
                expected += [float(logp[i - 1, tokens[i]]) for i, chosen in enumerate(mask) if chosen]
            assert batch["logp"] == pytest.approx(expected, abs=1e-4)
