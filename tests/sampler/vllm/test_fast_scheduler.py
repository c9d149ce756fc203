"""The engine's schedulers against a model that is played: it knows only what a scheduler tells it."""

import importlib
from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.models import COLOCATED

from isentropic.sampler.vllm.colocated import VllmSampler, available
from isentropic.sampler.vllm.engine_args import CPU_BLOCK as BLOCK

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not available(), reason="vLLM is not installed")]

END = 7


@pytest.fixture(scope="module")
def core(tiny_model):
    """Of an engine, for its settings."""
    importlib.import_module("llvmlite.binding")  # as a report does, in whose process an engine starts all the same
    sampler = VllmSampler(tiny_model, **(COLOCATED | {"load_format": "dummy", "sleep_level": 0}))
    sampler.start()
    yield sampler.engine.llm_engine.engine_core.engine_core
    sampler.stop()


@dataclass
class Played:
    """A model and its worker: draws a token from the request's name and place, and keeps the tables it was told."""

    length: dict = field(default_factory=dict)  # tokens computed of each request
    known: dict = field(default_factory=dict)  # tokens there are of it
    prompt: dict = field(default_factory=dict)
    blocks: dict = field(default_factory=dict)
    steps: int = 0
    mixed: int = 0  # steps in which some read a prompt and others decode

    def run(self, plan):
        for one in plan.finished_req_ids | (plan.preempted_req_ids or set()):
            self.blocks.pop(one, None)
        for new in plan.scheduled_new_reqs:
            self.length[new.req_id], self.blocks[new.req_id] = new.num_computed_tokens, list(new.block_ids[0])
            self.prompt.setdefault(new.req_id, len(new.prompt_token_ids))
            self.known.setdefault(new.req_id, len(new.prompt_token_ids))
        told = plan.scheduled_cached_reqs
        self.mixed += bool(plan.scheduled_new_reqs and told.req_ids)
        for one, computed, more in zip(told.req_ids, told.num_computed_tokens, told.new_block_ids, strict=True):
            if one in told.resumed_req_ids:
                self.length[one], self.blocks[one] = computed, []
            assert self.length[one] == computed  # no token is skipped or computed twice
            self.blocks[one] += more[0] if more else []
        self.steps += 1
        ids = list(plan.num_scheduled_tokens)
        for one in ids:
            self.length[one] += plan.num_scheduled_tokens[one]
            assert len(self.blocks[one]) == -(-self.length[one] // BLOCK)  # room for each token, and no more
        owned = [block for one in ids for block in self.blocks[one][self.prompt[one] // BLOCK :]]
        assert len(owned) == len(set(owned))  # only blocks of prompts are shared
        return ids, [self.token(one) for one in ids]

    def token(self, one):
        """None where some of what is known is still unread."""
        if self.length[one] < self.known[one]:
            return None
        self.known[one] = self.length[one] + 1
        return draw(int(one.split("-")[0]), self.length[one])


def draw(number, place):
    noise = int.from_bytes(blake2b(f"{number} {place}".encode(), digest_size=4).digest())
    return END if noise % 97 == 0 else 8 + noise % 50


def score(token):
    return -token / 10


def play(core, scheduler, short, blocks, seats=16, requests=16, graphs=False):
    """What each request came to, how often a step was planned the fast way, and the worker."""
    from vllm import SamplingParams
    from vllm.v1.request import Request

    from isentropic.sampler.vllm.sampling_params import ROW

    config = deepcopy(core.vllm_config)
    config.scheduler_config.async_scheduling = "Async" in scheduler.__name__
    config.scheduler_config.max_num_seqs = seats
    config.cache_config.num_gpu_blocks = blocks
    pages = deepcopy(core.scheduler.kv_cache_config)
    pages.num_blocks = blocks
    own = scheduler(
        vllm_config=config,
        kv_cache_config=pages,
        structured_output_manager=core.structured_output_manager,
        block_size=BLOCK,
        hash_block_size=BLOCK,
    )
    own.short, own.graphs = own.short and short, graphs
    taken = 0
    advance = own.advance

    def counted(*chosen):
        nonlocal taken
        taken += 1
        return advance(*chosen)

    own.advance = counted
    lengths = (30, 130, 200, 60)
    for number in range(requests):
        params = SamplingParams(
            max_tokens=100 + number % 3,
            stop_token_ids=[END],
            logprobs=0 if number % 2 else None,
            extra_args={ROW: number},
        )
        prompt = [9 + number % 2] * lengths[number % len(lengths)]
        own.add_request(Request(f"{number}-x", prompt, params, None, block_hasher=core.request_block_hasher))
    worker, plans, answers = Played(), deque(), {}
    depth = 2 if config.scheduler_config.async_scheduling else 1
    while own.has_requests() or plans:
        plan = own.schedule() if own.has_requests() else None
        if plan and plan.num_scheduled_tokens:
            plans.append((plan, worker.run(plan)))
            if len(plans) < depth:
                continue
        if plans:
            plan, (ids, tokens) = plans.popleft()
            update(own, plan, ids, tokens, answers)
    written = {n: (w.tokens, w.logp, w.finish) for n, w in own.take().items()}
    return (written if short else answers), taken, worker


def update(own, plan, ids, tokens, answers):
    from vllm.v1.outputs import LogprobsLists, ModelRunnerOutput

    drawn = [token or 0 for token in tokens]
    output = ModelRunnerOutput(
        req_ids=ids,
        req_id_to_index={one: place for place, one in enumerate(ids)},
        sampled_token_ids=[[] if token is None else [token] for token in tokens],
        logprobs=LogprobsLists(np.array(drawn)[:, None], np.array([[score(t)] for t in drawn]), np.zeros(len(ids))),
        prompt_logprobs_dict={},
        pooler_output=[],
    )
    for answer in own.update_from_output(plan, output).get(0, SimpleNamespace(outputs=[])).outputs:
        number = int(answer.request_id.split("-")[0])
        written, logp, _ = answers.setdefault(number, ([], [] if number % 2 else None, None))
        written += answer.new_token_ids
        if logp is not None and answer.new_logprobs is not None:
            logp += answer.new_logprobs.logprobs[:, 0].tolist()
        answers[number] = written, logp, None if answer.finish_reason is None else str(answer.finish_reason)


@pytest.mark.parametrize("kind", ["FastDecodeScheduler", "FastDecodeAsyncScheduler"])
@pytest.mark.parametrize(("blocks", "seats"), [(256, 16), (96, 16), (36, 16), (256, 6)])
def test_fast_decoding_writes_what_the_engine_s_own_way_does(core, kind, blocks, seats):
    """Also where some wait for room or for a seat, and some are put back."""
    from isentropic.sampler.vllm import fast_scheduler

    plain, none, _ = play(core, getattr(fast_scheduler, kind), False, blocks, seats)
    short, taken, worker = play(core, getattr(fast_scheduler, kind), True, blocks, seats)
    assert none == 0
    assert taken > worker.steps / 2
    assert short == plain
    assert len(short) == 16
    assert {finish for _, _, finish in short.values()} == {"stop", "length"}
    for number, (tokens, logp, _) in short.items():
        assert logp == ([score(token) for token in tokens] if number % 2 else None)


@pytest.mark.parametrize("kind", ["FastDecodeScheduler", "FastDecodeAsyncScheduler"])
def test_where_steps_are_graphs_sequences_begin_together(core, kind):
    """Few steps read prompts beside others that decode, no place stays empty for long, and all is written as before."""
    from isentropic.sampler.vllm import fast_scheduler

    sizes = {"blocks": 2000, "seats": 64, "requests": 400}
    plain, _, one_by_one = play(core, getattr(fast_scheduler, kind), False, **sizes)
    short, taken, together = play(core, getattr(fast_scheduler, kind), True, **sizes, graphs=True)
    assert short == plain
    assert together.mixed < one_by_one.mixed / 5
    assert together.steps < one_by_one.steps * 1.2
    assert taken > together.steps * 0.7


def test_an_unknown_release_takes_the_engine_s_own_way(core, monkeypatch):
    from isentropic.sampler.vllm import fast_scheduler

    monkeypatch.setattr(fast_scheduler, "READ", {})
    answers, taken, _ = play(core, fast_scheduler.FastDecodeScheduler, False, 256)
    assert taken == 0
    assert len(answers) == 16
