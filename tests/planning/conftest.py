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
    context=1.0, collectives=0.0, spare=1.0, workspace=0.0, product_share=1.0, decode_share=1.0, narrow=1,
    attention_share=1.0, bandwidth_share=1.0, passes=1.0, passes_fused=0.5, launch=0.0, launch_fused=0.0, step=0.0,
    sequence=0.0, sequence_plain=0.0, told=0.0, text=0.0, tensor=0.0, tensor_sharded=0.0,
    sleep=1e9, wake=1e9, verify=0.0, start=0.0,
)  # fmt: skip
ENGINE = Engine(
    size=2, ranks=1, apart=False, context=20, sequences=8, cache=1.0, share=0.5, sleep_level=1, eager=False,
    short=True, tells=False,
)  # fmt: skip
WORK = Workload(
    ranks=1, shards=1, rows=4, group=2, prompts_asked=2, updates=2, rollouts=3, longest=10, micro_batch=2,
    max_tokens_per_micro_batch=None, max_tokens_no_grad=None, sharded_gradients=False, reshard_after_forward=True, size=2, chunk=8, packed=False,
    shared=False, checkpointing="none", fused=False, adapter=None, reference=False, reference_weights=False, once=False,
    ahead=False, rereads=0, engine=ENGINE, judged=4, judged_longest=10, evaluations=2, verifiers=1,
    lengths=Lengths(prompt=6, share=1.0, kept=1.0),
)  # fmt: skip


@pytest.fixture
def small() -> SimpleNamespace:
    """`work(**changes)` and `card(**changes)` of the small run."""
    return SimpleNamespace(
        model=MODEL, work=lambda **new: replace(WORK, **new), card=lambda **new: replace(CARD, **new)
    )
