from dataclasses import replace

import pytest

from isentropic.planning.advice import advice, fitting_share, quicker
from isentropic.planning.memory import GIB, memory


def said(small, card=None, **changes):
    work, card = small.work(**changes), card or small.card()
    return advice(small.model, work, card, memory(small.model, work, card))


def tight(small, moment="update", **changes):
    """A card that has a hundredth less than the run takes."""
    held = memory(small.model, small.work(**changes), small.card())
    return small.card(memory=2 + 0.99 * held.peak(moment) / GIB)


def test_nothing_is_said_of_a_run_that_fits(small):
    assert said(small) == []


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"max_tokens": 90, "micro_batch": 1, "rows": 400}, "take policy.model.activation_checkpointing=full"),
        (
            {"max_tokens": 90, "micro_batch": 64, "rows": 400, "checkpointing": "full"},
            "lower policy.optimization.max_tokens_per_micro_batch",
        ),
        (
            {"logits_chunk": 6000, "max_tokens": 90, "rows": 400, "micro_batch": 64, "checkpointing": "full"},
            "lower policy.model.logits_chunk=6000",
        ),
        (
            {"shards": 4, "ranks": 4, "rows": 8, "micro_batch": 1, "logits_chunk": 1},
            "take policy.optimization.sharded_gradients=true",
        ),
    ],
)
def test_what_does_not_fit_is_said_with_what_would(small, changes, remedy):
    changes["engine"] = replace(small.work().engine, cache=1e-5, context=100, sequences=1)
    sentences = [s for s in said(small, tight(small, **changes), **changes) if s.startswith("update: ")]
    assert len(sentences) == 1 and remedy in sentences[0]


def test_an_engine_may_have_to_take_less_or_sleep(small):
    engine = replace(small.work().engine, cache=None, share=0.9)
    (sentence,) = said(small, engine=engine)
    assert "rollout: 9 GiB are 1 more than the 8" in sentence
    over = memory(small.model, small.work(engine=engine), small.card())
    share = fitting_share(small.model, small.work(engine=engine), small.card(), over.peak("rollout") - over.room)
    assert sentence.endswith(f"lower sampler.gpu_memory_utilization to {share:.2f}")
    assert said(small, engine=replace(engine, share=share)) == []
    awake = replace(small.work().engine, cache=9.0, sleep_level=0)
    assert any(s.startswith("update") and s.endswith("take sampler.sleep_level=2") for s in said(small, engine=awake))
    given = replace(small.work().engine, cache=9.0)
    assert any("lower sampler.kv_cache_gib to 8.0" in s or "to 7.9" in s for s in said(small, engine=given))


def test_contexts_that_do_not_suit_are_named(small):
    engine = small.work().engine
    (short,) = said(small, engine=replace(engine, context=12), eval_max_tokens=12)
    assert short.startswith("sampler.max_model_len=12 leaves no prompt before the longest answer, of 12 tokens")
    (long,) = said(small, engine=replace(engine, context=200))
    assert long.startswith("sampler.max_model_len=200 is more than the 100 tokens that the model reads")
    (cramped,) = said(small, engine=replace(engine, cache=1e-7))
    assert "do not hold one answer of 20 tokens" in cramped


def test_an_engine_that_could_answer_more_at_one_time_is_told_so(small):
    share = (2 * small.model.parameters + 3 * 4 * 1000 * 8 + 3 * 11 * small.model.cache(2)) / (10 * GIB)
    engine = replace(small.work().engine, cache=None, share=share)
    (sentence,) = said(small, engine=engine)
    assert sentence.startswith("each engine answers 3 of 4 at one time for want of memory, of which 8 GiB are free")


def test_a_host_with_too_little_memory_is_named(small):
    (sentence,) = said(small, small.card(host=1e-6))
    assert sentence.startswith("the host: ") and "card.host" in sentence


def test_a_model_too_big_for_a_card_is_to_be_divided(small):
    (first, *_) = said(small, small.card(memory=2.0001))
    assert "divide the model over several GPUs with trainer=fsdp" in first


def test_weights_and_gradients_stay_whole_where_that_is_quicker_and_fits(small):
    """Several micro-batches, wires that are slow, and a card with room for 6 bytes more of each parameter."""
    shared = {"shards": 4, "ranks": 4, "rows": 16, "micro_batch": 1, "updates": 1, "sharded_gradients": True}
    work, slow = small.work(**shared), small.card(links=1e5)
    found = quicker(small.model, work, slow, memory(small.model, work, slow))
    assert len(found) == 1 and "reshard_after_forward=false and policy.optimization.sharded_gradients=false" in found[0]
    assert "for 0 GiB more" in found[0]
    whole = replace(work, reshard_after_forward=False, sharded_gradients=False)
    least = memory(small.model, work, slow)
    barely = replace(slow, memory=2.0 + least.peak("update") / GIB)
    (found,) = quicker(small.model, work, barely, least)
    assert "sharded_gradients" not in found, "whole, they do not fit; whole weights are the two layers there are anyway"
    for other in (replace(slow, links=1e30), replace(slow, flops=1.0)):
        assert quicker(small.model, work, other, least) == [], "the wires take next to nothing"
    assert quicker(small.model, whole, slow, memory(small.model, whole, slow)) == []
    alone = small.work(shards=1)
    assert quicker(small.model, alone, slow, memory(small.model, alone, slow)) == []


def test_ranks_that_share_a_model_leave_room_for_collectives(small):
    card = small.card(collectives=0.5)
    rooms = [memory(small.model, small.work(shards=shards, ranks=shards), card).room for shards in (1, 2)]
    assert rooms == [8 * GIB, 7.5 * GIB]
