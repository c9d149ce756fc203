from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from fixtures.models import SYMBOLS
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from isentropic.sampler import Decoding, Request
from isentropic.sampler.hf import TransformersSampler, draw, process

DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=16, stop=None)
PROMPTS = [[2 + (i * j) % 18 for j in range(1 + 3 * i)] for i in range(8)]
SEEDS = [1000 + 4 * i for i in range(8)]
LOGITS = torch.log(torch.tensor([[0.1, 0.5, 0.15, 0.25]]))


@pytest.fixture(scope="module")
def sampler(tiny_model):
    sampler = TransformersSampler(tiny_model, dtype="float32", device="cpu", max_model_len=64, max_num_seqs=256)
    sampler.start()
    return sampler


@pytest.fixture(scope="module")
def policy(tiny_model):
    return AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).requires_grad_(False)


def kept(**settings):
    return process(LOGITS, replace(DECODING, **settings)).exp()[0]


def close(ours, theirs):
    return torch.allclose(ours, torch.tensor(theirs, dtype=torch.float32), atol=1e-4)


def test_temperature_flattens():
    assert close(kept(temperature=0.5), [0.01 / 0.345, 0.25 / 0.345, 0.0225 / 0.345, 0.0625 / 0.345])


def test_top_k_keeps_the_likeliest_and_renormalises():
    assert close(kept(top_k=2), [0, 2 / 3, 0, 1 / 3])


def test_top_p_keeps_the_smallest_set_of_that_mass_and_renormalises():
    assert close(kept(top_p=0.74), [0, 2 / 3, 0, 1 / 3])
    assert close(kept(top_p=0.8), [0, 5 / 9, 1.5 / 9, 2.5 / 9])


def test_min_p_is_relative_to_the_likeliest():
    assert close(kept(min_p=0.25), [0, 5 / 9, 1.5 / 9, 2.5 / 9])


def test_at_least_one_token_survives_every_filter():
    assert close(kept(top_p=1e-9, top_k=1, min_p=0.99), [0, 1, 0, 0])


def test_draws_follow_the_distribution():
    noise = torch.rand(100_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = draw(LOGITS.expand(100_000, 4), noise)
    assert torch.allclose(torch.bincount(drawn) / 100_000, LOGITS.exp()[0], atol=0.01)


def test_a_forbidden_token_is_never_drawn():
    logp = torch.tensor([[-torch.inf, 0.0, -torch.inf]]).expand(2, 3)
    assert draw(logp, torch.tensor([0.0, 1 - 1e-16], dtype=torch.float64)).tolist() == [1, 1]


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_log_probs_are_of_the_scaled_distribution(sampler, policy, reference, temperature):
    groups = sampler.sample(PROMPTS, 4, SEEDS, replace(DECODING, temperature=temperature))
    for prompt, group in zip(PROMPTS, groups, strict=True):
        for completion in group:
            assert completion.logp == pytest.approx(reference(policy, prompt, completion.tokens, temperature), abs=1e-4)


@pytest.fixture(scope="module")
def absolute(tmp_path_factory):
    """A model that knows where a token stands by a learned absolute position."""
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("gpt2")
    config = GPT2Config(
        vocab_size=24, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1,
        initializer_range=0.2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


def test_padding_on_the_left_changes_nothing_even_for_learned_positions(absolute, reference):
    sampler = TransformersSampler(absolute, dtype="float32", device="cpu", max_model_len=64, max_num_seqs=256)
    sampler.start()
    policy = AutoModelForCausalLM.from_pretrained(absolute, dtype=torch.float32).requires_grad_(False).eval()
    for prompt, group in zip(PROMPTS, sampler.sample(PROMPTS, 2, SEEDS, DECODING), strict=True):  # 1 to 22 tokens
        for completion in group:
            assert completion.logp == pytest.approx(reference(policy, prompt, completion.tokens, 1.0), abs=1e-4)


def test_a_completion_does_not_depend_on_what_is_decoded_beside_it(sampler):
    together = sampler.sample(PROMPTS, 4, SEEDS, DECODING)
    alone = [sampler.sample([p], 1, [s + 3], DECODING)[0][0] for p, s in zip(PROMPTS, SEEDS, strict=True)]
    assert [group[3].tokens for group in together] == [completion.tokens for completion in alone]


def test_batches_smaller_than_the_request_change_nothing(sampler):
    small = replace(sampler, max_num_seqs=9)
    small.model = sampler.model
    tokens = [[c.tokens for c in group] for group in small.sample(PROMPTS, 4, SEEDS, DECODING)]
    assert tokens == [[c.tokens for c in group] for group in sampler.sample(PROMPTS, 4, SEEDS, DECODING)]


def test_completions_end_with_their_end_token_or_at_the_limit(sampler):
    completions = [c for group in sampler.sample(PROMPTS, 16, [16 * i for i in range(8)], DECODING) for c in group]
    assert {c.finish for c in completions} == {"stop", "length"}
    for completion in completions:
        assert (completion.finish == "stop") == (completion.tokens[-1] == 1)
        assert 1 not in completion.tokens[:-1]
        assert completion.finish == "stop" or len(completion.tokens) == 16
        assert len(completion.logp) == len(completion.tokens)


def test_the_stop_text_ends_a_completion_and_stays_in_it(sampler):
    completions = [c for group in sampler.sample(PROMPTS, 4, SEEDS, replace(DECODING, stop="3")) for c in group]
    assert any(c.tokens[-1] == 5 and c.finish == "stop" for c in completions)
    assert not any(5 in c.tokens[:-1] for c in completions)


def text(symbols, tokens):
    """Ids beyond the symbols have none."""
    return "".join(symbols[token] for token in tokens if token < len(symbols))


def cut(symbols, tokens, stop):
    """Up to where the stop first stands."""
    return next((tokens[:n] for n in range(1, len(tokens)) if stop in text(symbols, tokens[:n])), tokens)


def commonest(completions):
    return Counter(two for one in completions for two in pairwise(one) if 1 < min(two) <= max(two) < len(SYMBOLS))


def test_a_stop_of_several_tokens_ends_a_completion_where_it_first_stands(sampler):
    seeds = [64 * i for i in range(8)]
    plain = [one.tokens for group in sampler.sample(PROMPTS, 64, seeds, DECODING) for one in group]
    stop = text(SYMBOLS, commonest(plain).most_common(1)[0][0])
    found = [one for group in sampler.sample(PROMPTS, 64, seeds, replace(DECODING, stop=stop)) for one in group]
    assert [one.tokens for one in found] == [cut(SYMBOLS, tokens, stop) for tokens in plain]  # else drawn as without it
    for one in found:
        assert (one.finish == "stop") == (stop in text(SYMBOLS, one.tokens) or one.tokens[-1] == 1)
    assert sum(stop in text(SYMBOLS, one.tokens) for one in found) > 3


def test_what_the_last_token_of_a_stop_holds_beyond_it_stays(sampler, tiny_model, tmp_path, reference, policy):
    seeds = [64 * i for i in range(8)]
    plain = [one.tokens for group in sampler.sample(PROMPTS, 64, seeds, DECODING) for one in group]
    pairs = commonest(plain)
    first, last = pairs.most_common(1)[0][0]
    other = max((two for two in pairs if two[0] == first and two[1] not in (first, last)), key=pairs.__getitem__)[1]
    symbols, stop = list(SYMBOLS), SYMBOLS[first] + SYMBOLS[last]
    symbols[other] = f"{SYMBOLS[last]}>"  # a token that holds the end of the stop and more
    for file in Path(tiny_model).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    words = Tokenizer(models.WordLevel({symbol: i for i, symbol in enumerate(symbols)}, unk_token="<pad>"))
    words.pre_tokenizer, words.decoder = pre_tokenizers.Split(Regex("."), "isolated"), decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>").save_pretrained(tmp_path)
    whole = TransformersSampler(str(tmp_path), dtype="float32", device="cpu", max_model_len=64, max_num_seqs=256)
    whole.start()
    found = [one for group in whole.sample(PROMPTS, 64, seeds, replace(DECODING, stop=stop)) for one in group]
    assert [one.tokens for one in found] == [cut(symbols, tokens, stop) for tokens in plain]
    assert {tuple(one.tokens[-2:]) for one in found if stop in text(symbols, one.tokens)} >= {
        (first, last),
        (first, other),
    }
    for prompt, one in zip(PROMPTS, found[::64], strict=True):
        assert one.logp == pytest.approx(reference(policy, prompt, one.tokens, 1.0), abs=1e-4)


def test_at_temperature_zero_the_likeliest_token_comes_whatever_the_seed_and_the_filters(sampler, policy):
    greedy = replace(DECODING, temperature=0.0, top_p=0.5, min_p=0.1)
    first = sampler.sample(PROMPTS, 1, SEEDS, greedy)
    assert sampler.sample(PROMPTS, 1, [seed + 1 for seed in SEEDS], greedy) == first
    for prompt, (completion,) in zip(PROMPTS, first, strict=True):
        whole = torch.tensor([[*prompt, *completion.tokens]])
        likeliest = policy(whole).logits[0, len(prompt) - 1 : -1].argmax(-1)
        assert likeliest.tolist() == completion.tokens


def test_no_prompt_gives_no_completion(sampler):
    assert sampler.sample([], 4, [], DECODING) == []


def test_scores_are_the_model_s_log_probs(sampler, policy, reference):
    tokens = PROMPTS[5]
    assert sampler.score(tokens) == pytest.approx(reference(policy, tokens[:1], tokens[1:], 1.0), abs=1e-4)
    with pytest.raises(ValueError, match="65 tokens cannot be scored"):
        sampler.score([2] * 65)


def test_the_random_state_is_untouched(tiny_model):
    sampler = TransformersSampler(tiny_model, dtype="float32", device="cpu", max_model_len=64, max_num_seqs=256)
    before = torch.get_rng_state()
    sampler.start()
    sampler.sample(PROMPTS, 2, SEEDS, DECODING)
    assert torch.equal(before, torch.get_rng_state())


def test_new_weights_are_used_and_the_caller_s_stay_its_own(tiny_model, policy):
    sampler = TransformersSampler(tiny_model, dtype="bfloat16", device="cpu", max_model_len=64, max_num_seqs=256)
    sampler.start()
    before = sampler.score(PROMPTS[5])
    sampler.update_weights((name, 2 * tensor) for name, tensor in policy.state_dict().items())
    assert sampler.score(PROMPTS[5]) != before
    assert sampler.model.dtype == torch.bfloat16
    sampler.update_weights((name, tensor) for name, tensor in policy.named_parameters())  # without the tied alias
    assert sampler.score(PROMPTS[5]) == before


def test_weights_that_are_not_the_model_s_are_refused(sampler, policy):
    weights = policy.state_dict()
    with pytest.raises(ValueError, match="weight head is not one of the model"):
        sampler.update_weights([("head", torch.zeros(1))])
    with pytest.raises(ValueError, match=r"1 weights did not come, model.norm.weight"):
        sampler.update_weights((name, tensor) for name, tensor in weights.items() if name != "model.norm.weight")
    with pytest.raises(ValueError, match=r"model.norm.weight has shape \[2\]; it must be \[64\]"):
        sampler.update_weights([("model.norm.weight", torch.zeros(2))])


def test_settings_it_does_not_know_are_refused(tiny_model):
    with pytest.raises(ValueError, match="dtype=float16 is not one of float32, bfloat16"):
        TransformersSampler(tiny_model, dtype="float16", device="cpu", max_model_len=64, max_num_seqs=8)
    with pytest.raises(ValueError, match="device=tpu is not one of cpu, cuda"):
        TransformersSampler(tiny_model, dtype="float32", device="tpu", max_model_len=64, max_num_seqs=8)


def test_each_request_is_written_by_its_own_seed_up_to_its_own_limit(sampler):
    whole = [c for group in sampler.sample(PROMPTS, 2, SEEDS, DECODING) for c in group]
    rows = [(prompt, seed + child) for prompt, seed in zip(PROMPTS, SEEDS, strict=True) for child in range(2)]
    limits = [1 + place % 16 for place in range(16)]
    requests = [Request(prompt, seed, limit) for (prompt, seed), limit in zip(rows, limits, strict=True)]
    for order in (range(16), range(15, -1, -1)):
        written = sampler.write([requests[place] for place in order], DECODING)
        for place, one in zip(order, written, strict=True):
            limit, long = limits[place], whole[place]
            assert one.tokens == long.tokens[:limit]
            assert one.finish == (long.finish if len(long.tokens) <= limit else "length")
            assert torch.allclose(torch.tensor(one.logp), torch.tensor(long.logp[:limit]), atol=1e-5)


def test_requests_of_one_prompt_are_read_once_whether_asked_as_a_group_or_one_by_one(sampler):
    groups = sampler.sample(PROMPTS, 4, SEEDS, DECODING)
    shared = [list(prompt) for prompt in PROMPTS]
    requests = [Request(p, seed + i, 16) for p, seed in zip(shared, SEEDS, strict=True) for i in range(4)]
    assert sampler.write(requests, DECODING) == [one for group in groups for one in group]  # to the last bit


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request([], 0, 4), "a prompt of 0 tokens"),
        (Request([2], 0, 0), "a limit of 0 tokens is not from 1 to max_tokens=16"),
        (Request([2], 0, 17), "a limit of 17 tokens"),
        (Request([2] * 60, 0, 5), r"a prompt of 60 tokens and a limit of 5 together exceed sampler\.max_model_len=64"),
        (Request([2], -1, 4), "seed -1"),
    ],
)
def test_a_request_that_cannot_be_is_refused(sampler, request_, message):
    with pytest.raises(ValueError, match=message):
        sampler.write([Request([2], 0, 4), request_], DECODING)
