"""A model small enough to reckon by hand, a card of round numbers, and a run of four answers on one rank."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.lengths import Lengths
from isentropic.planning.workload import Engine, Workload

MODEL = Architecture("llama", 1000, 10, 20, 2, 4, 2, 5, tied=False, biased=False, context=100)
CARD = Card(
    "card", memory=10.0, flops=1e12, flops_fp32=1e11, bandwidth=1e11, links=1e9, network=1e8, host=10.0, gpus=8,
    context=1.0, collectives=0.0, fragmentation=1.0, workspace=0.0, product_share=1.0, decode_share=1.0, narrow=1,
    attention_share=1.0, bandwidth_share=1.0, passes=1.0, passes_fused=0.5, launch=0.0, launch_fused=0.0, step=0.0,
    sequence=0.0, sequence_default=0.0, logprob=0.0, detokenize=0.0, tensor=0.0, tensor_sharded=0.0, sync=0.0,
    sleep=1e9, wake=1e9, verify=0.0, start=0.0,
)  # fmt: skip
ENGINE = Engine(
    size=2, ranks=1, is_remote=False, context=20, sequences=8, cache=1.0, share=0.5, sleep_level=1, eager=False,
    fast_decode=True, returns_logprobs=False,
)  # fmt: skip
WORK = Workload(
    ranks=1, shards=1, rows=4, group=2, prompts_asked=2, updates=2, rollouts=3, max_tokens=10, micro_batch=2,
    max_tokens_per_micro_batch=None, max_tokens_no_grad=None, sharded_gradients=False, reshard_after_forward=True,
    size=2, logits_chunk=8, packed=False, share_prompts=False, checkpointing="none", compiled=False, adapter=None,
    reference=False, reference_weights=False, reuse_update_forward=False, one_step_off_policy=False,
    logp_recomputations=0, engine=ENGINE, eval_answers=4, eval_max_tokens=10, evaluations=2, verifiers=1,
    lengths=Lengths(prompt=6, share=1.0, kept=1.0),
)  # fmt: skip


@pytest.fixture
def small() -> SimpleNamespace:
    """`work(**changes)` and `card(**changes)` of the small run."""
    return SimpleNamespace(
        model=MODEL, work=lambda **new: replace(WORK, **new), card=lambda **new: replace(CARD, **new)
    )
