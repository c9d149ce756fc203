"""Completions that go on from the keys and values of older weights, the engine's own way and the short one."""

from itertools import count

import pytest
import torch
from fixtures.models import COLOCATED
from transformers import AutoModelForCausalLM

from isentropic.sampler import Decoding, Request, SamplerError, seed_after
from isentropic.sampler.hf import TransformersSampler
from isentropic.sampler.vllm.colocated import VllmSampler, available

pytestmark = [
    pytest.mark.skipif(not available(), reason="vLLM is not installed"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="log-probs are compared with those of a CPU"),
]

DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=40, stop=None)
PROMPTS = [[2 + (i * j) % 18 for j in range(1 + 3 * i)] for i in range(12)]
REQUESTS = [Request(prompt, 1000 + i, 40 if i % 4 == 0 else 3 + i) for i, prompt in enumerate(PROMPTS)]


WAYS = [pytest.param(True, id="fast"), pytest.param(False, marks=pytest.mark.slow, id="own")]


@pytest.fixture(scope="module", params=WAYS)
def engine(request, tiny_model):
    sampler = VllmSampler(tiny_model, **(COLOCATED | {"fast_decode": request.param, "sleep_level": 0}))
    sampler.start()
    yield sampler
    sampler.stop()


@pytest.fixture
def sampler(engine, policy):
    engine.let_go()
    engine.update_weights(policy.state_dict().items())
    return engine


def moved(policy, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for weight in policy.parameters():
        weight.add_(0.2 * torch.randn(weight.shape, generator=generator))
    return policy


class Answers:
    """Requests asked for piece after piece, each with the weights of its call."""

    def __init__(self, sampler, requests=REQUESTS):
        self.sampler, self.requests = sampler, requests
        self.tokens, self.logp = [[] for _ in requests], [[] for _ in requests]
        self.pieces = [[] for _ in requests]  # lengths
        self.over = set()

    def write(self, steps=None, at_once=8):
        asked = count()
        places = [place for place in range(len(self.requests)) if place not in self.over]

        def add(place, piece):
            self.tokens[place] += piece.tokens
            self.logp[place] += piece.logp
            self.pieces[place].append(len(piece.tokens))

        def done(index, completion):
            self.over.add(places[index])
            add(places[index], completion)

        halted = (lambda: False) if steps is None else (lambda: next(asked) >= steps)
        for index, piece in self.sampler.write_until(self.rest(places), DECODING, at_once, done, halted, True).items():
            add(places[index], piece)

    def rest(self, places):
        found = []
        for place in places:
            first, length = self.requests[place], len(self.tokens[place])
            seed = seed_after(first.seed, length) if length else first.seed
            found.append(Request([*first.prompt, *self.tokens[place]], seed, first.limit - length))
        return found


def stale_logp(models, prompt, pieces, tokens):
    """Of tokens, of which each piece was drawn by a model of its own, from the keys and values of those before it."""
    cache, found, start = None, [], 0
    unread = list(prompt)
    for model, length in zip(models, pieces, strict=True):
        for token in tokens[start : start + length]:
            out = model(input_ids=torch.tensor([unread]), past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            found.append(float(out.logits[0, -1].log_softmax(-1)[token]))
            unread = [token]
        start += length
    return found


def test_with_the_same_weights_pieces_are_the_whole_completion(sampler):
    whole = sampler.write(REQUESTS, DECODING)
    answers = Answers(sampler)
    for _ in range(4):
        answers.write(5)
    answers.write()
    assert max(map(len, answers.pieces)) > 3
    for one, tokens, logp in zip(whole, answers.tokens, answers.logp, strict=True):
        assert one.tokens == tokens
        assert one.logp == pytest.approx(logp, abs=1e-4)


def test_what_goes_on_is_drawn_by_the_new_weights_from_the_old_keys_and_values(sampler, policy, tiny_model):
    answers, models = Answers(sampler), []
    for version in range(4):
        models.append(moved(AutoModelForCausalLM.from_pretrained(tiny_model).requires_grad_(False), version))
        sampler.update_weights(models[-1].state_dict().items())
        answers.write(6 if version < 3 else None, at_once=12)
    several = 0
    for request, pieces, tokens, logp in zip(REQUESTS, answers.pieces, answers.tokens, answers.logp, strict=True):
        expected = stale_logp(models[: len(pieces)], request.prompt, pieces, tokens)
        assert logp == pytest.approx(expected, abs=2e-4)
        several += len(pieces) > 1 and pieces[0] > 0
    assert several > 2
    fresh = stale_logp([models[-1]], REQUESTS[0].prompt, [len(answers.tokens[0])], answers.tokens[0])
    assert max(abs(a - b) for a, b in zip(fresh, answers.logp[0], strict=True)) > 0.01, "the versions are too alike"


def test_new_requests_find_nothing_that_older_weights_cached(sampler, policy):
    shared = [[2 + 7 * j % 18 for j in range(140)] + [2 + i] for i in range(4)]  # a block is 32 tokens on CPU
    answers = Answers(sampler, [Request(prompt, 50 + i, 30) for i, prompt in enumerate(shared)])
    answers.write(4)
    sampler.update_weights(moved(policy).state_dict().items())
    new = Answers(sampler, answers.requests + [Request(prompt, 90 + i, 8) for i, prompt in enumerate(shared)])
    new.tokens[:4], new.logp[:4] = answers.tokens, answers.logp
    new.write()
    for place in range(4, 8):
        request, tokens = new.requests[place], new.tokens[place]
        assert new.logp[place] == pytest.approx(stale_logp([policy], request.prompt, [len(tokens)], tokens), abs=1e-4)
    scored = sampler.score(shared[0])
    assert scored == pytest.approx(stale_logp([policy], shared[0][:1], [140], shared[0][1:]), abs=1e-4)


def test_a_sequence_is_scored_beside_what_is_kept(sampler, policy):
    alone = Answers(sampler)
    alone.write(5)
    alone.write()
    beside = Answers(sampler)
    beside.write(5)
    assert sampler.kept.running
    scored = sampler.score(PROMPTS[4])
    assert scored == pytest.approx(stale_logp([policy], PROMPTS[4][:1], [12], PROMPTS[4][1:]), abs=1e-4)
    beside.write()
    assert beside.tokens == alone.tokens


def test_what_else_is_asked_for_ends_what_is_kept_which_is_then_computed_anew(sampler, policy):
    answers = Answers(sampler)
    answers.write(5, at_once=12)
    first = [list(tokens) for tokens in answers.tokens]
    sampler.update_weights(moved(policy).state_dict().items())
    assert len(sampler.write(REQUESTS[:2], DECODING)) == 2 and sampler.kept is None
    answers.write()
    for request, begun, tokens, logp in zip(REQUESTS, first, answers.tokens, answers.logp, strict=True):
        rest = tokens[len(begun) :]
        expected = stale_logp([policy], [*request.prompt, *begun], [len(rest)], rest)
        assert logp[len(begun) :] == pytest.approx(expected, abs=1e-4)


def test_what_is_not_asked_for_again_ends(sampler):
    answers = Answers(sampler)
    answers.write(5)
    running = len(sampler.kept.running)
    answers.over |= {place for place, tokens in enumerate(answers.tokens) if tokens and place % 2}
    left = sum(bool(tokens) and place not in answers.over for place, tokens in enumerate(answers.tokens))
    answers.write(0)
    assert len(sampler.kept.running) == left < running
    answers.write()
    assert not sampler.kept.running and not sampler.scheduler.running


def test_what_is_raised_ends_what_runs(sampler):
    def fails(place, completion):
        raise KeyError(place)

    with pytest.raises(KeyError):
        sampler.write_until(REQUESTS, DECODING, 8, fails, lambda: False, keep=True)
    assert len(sampler.write(REQUESTS[:2], DECODING)) == 2


@pytest.mark.slow
def test_an_engine_that_sleeps_or_has_no_cache_of_its_own_keeps_nothing(tiny_model, monkeypatch):
    settings = COLOCATED | {"sleep_level": 2}
    assert VllmSampler(tiny_model, **settings).keeps, "there is no sleep on a CPU"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not VllmSampler(tiny_model, **settings).keeps
    assert VllmSampler(tiny_model, **(settings | {"sleep_level": 0})).keeps
    monkeypatch.undo()
    other = TransformersSampler(tiny_model, dtype="float32", device="cpu", max_model_len=64, max_num_seqs=64)
    with pytest.raises(SamplerError, match="computes anew what goes on"):
        other.write_until(REQUESTS, DECODING, 8, print, lambda: False, keep=True)
