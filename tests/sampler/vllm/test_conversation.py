"""Completions that are halted in the middle and go on with other weights, the engine's own way and the short one."""

from itertools import count

import pytest
import torch
from fixtures.models import COLOCATED
from transformers import AutoModelForCausalLM

from isentropic.sampler import Decoding, Request, seed_after
from isentropic.sampler.vllm.colocated import VllmSampler, available

pytestmark = pytest.mark.skipif(not available(), reason="vLLM is not installed")

DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=40, stop=None)
PROMPTS = [[2 + (i * j) % 18 for j in range(1 + 3 * i)] for i in range(12)]
REQUESTS = [Request(prompt, 1000 + i, 40 if i % 4 == 0 else 3 + i) for i, prompt in enumerate(PROMPTS)]


OWN = pytest.param(False, id="own", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[pytest.param(True, id="fast"), OWN])
def sampler(request, tiny_model):
    sampler = VllmSampler(tiny_model, **(COLOCATED | {"fast_decode": request.param}))
    sampler.start()
    yield sampler
    sampler.stop()


def halted_after(steps):
    """True when it has been asked so often."""
    asked = count()
    return lambda: next(asked) >= steps


def reference(policy, prompt, tokens):
    logits = policy(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return logits.gather(1, torch.tensor(tokens)[:, None])[:, 0].tolist()


def test_what_was_halted_goes_on_with_the_weights_that_came(sampler, tiny_model):
    policy = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).requires_grad_(False)
    sampler.update_weights(policy.state_dict().items())
    whole = sampler.write(REQUESTS, DECODING)
    done = {}
    pieces = sampler.write_until(REQUESTS, DECODING, 8, done.__setitem__, halted_after(9))
    assert done and max(len(piece.tokens) for piece in pieces.values()) > 0
    for place, piece in pieces.items():
        assert piece.tokens == whole[place].tokens[: len(piece.tokens)]
        assert piece.logp == pytest.approx(whole[place].logp[: len(piece.tokens)], abs=1e-4)
    assert all(one.tokens == whole[place].tokens for place, one in done.items())

    generator = torch.Generator().manual_seed(1)
    for weight in policy.parameters():
        weight.add_(0.2 * torch.randn(weight.shape, generator=generator))
    sampler.update_weights(policy.state_dict().items())
    rest = [
        Request([*PROMPTS[place], *piece.tokens], seed_after(1000 + place, len(piece.tokens)), 3)
        for place, piece in pieces.items()
    ]
    written = sampler.write(rest, DECODING)
    for asked, one in zip(rest, written, strict=True):
        assert one.logp == pytest.approx(reference(policy, asked.prompt, one.tokens), abs=1e-4)


def test_no_more_than_so_many_run_at_one_time(sampler):
    before, done = sampler.slots, {}
    pieces = sampler.write_until(REQUESTS, DECODING, 4, done.__setitem__, lambda: len(done) >= 5)
    assert len(done) >= 5 and len(pieces) <= 4
    places, idle = (now - then for now, then in zip(sampler.slots, before, strict=True))
    assert places % 4 == 0 and idle == 0, "a place was empty while others waited"


def test_all_are_done_where_nothing_halts_them(sampler):
    done, before = {}, sampler.slots
    assert sampler.write_until(REQUESTS, DECODING, 64, done.__setitem__, lambda: False) == {}
    assert sorted(done) == list(range(12))
    places, idle = (now - then for now, then in zip(sampler.slots, before, strict=True))
    assert places - idle >= sum(len(one.tokens) for one in done.values())
    assert idle > places / 4, "three of four were short"


def test_what_is_raised_ends_what_runs(sampler):
    def fails(place, completion):
        raise KeyError(place)

    with pytest.raises(KeyError):
        sampler.write_until(REQUESTS, DECODING, 8, fails, lambda: False)
    assert len(sampler.write(REQUESTS[:2], DECODING)) == 2
