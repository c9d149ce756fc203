"""By hand on a small model, and against what torch holds for the shipped one."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isentropic.planning.activations import backward_buffers, kept
from isentropic.planning.architecture import architecture
from isentropic.planning.memory import GIB, engine_bytes, memory
from isentropic.planning.workload import Adapter
from isentropic.policy.model.language_model import LanguageModel, ModelSettings

ASSETS = Path(__file__).parents[2] / "src" / "isentropic" / "assets"
SHIPPED = str(ASSETS / "countdown")


def test_weights_gradients_and_optimizer_are_what_torch_holds(small):
    policy = LanguageModel(ModelSettings(SHIPPED, "float32", 4096, False, "none", False))
    optimizer = torch.optim.AdamW(policy.parameters())
    policy(torch.ones(1, 5, dtype=torch.long), torch.ones(1, 5, dtype=torch.bool), 5, 1.0, "none")[0].sum().backward()
    optimizer.step()
    shipped = architecture(SHIPPED, str(ASSETS / "architectures.yaml"))
    items = memory(shipped, small.work(), small.card()).peaks["optimizer step"]
    held = [v for state in optimizer.state.values() for k, v in state.items() if k != "step"]
    assert items["AdamW"] == sum(v.numel() * v.element_size() for v in held)
    assert items["weights, fp32"] == sum(p.numel() * p.element_size() for p in policy.parameters())
    assert items["gradients"] == sum(p.grad.numel() * p.grad.element_size() for p in policy.parameters())


def test_the_small_run_by_hand(small):
    held = memory(small.model, small.work(), small.card())
    update, n = held.peaks["update"], small.model.parameters
    assert (update["weights, fp32"], update["AdamW"], update["gradients"]) == (4 * n, 8 * n, 4 * n)
    assert update["rollout"] == 70 * 4 * (6 + 10)
    assert update["activations"] == 2 * 16 * 2 * kept(small.model, small.work())
    assert update["weights in bf16"] == 2 * n
    assert update["logits"] == 2 * 1000 * 8, "a chunk is less than the 20 tokens of two answers"
    assert update["gradient of the head"] == 2 * 1000 * 10
    assert update["states of the head"] == 20 * 10 * (2 * 2 + 4)
    assert "a layer's backward pass" not in update, "which is less than the head"
    assert held.peaks["rollout"]["engine weights"] == 2 * n
    beside = memory(small.model, small.work(), small.card(workspace=0.5)).peaks["rollout"]
    assert beside["engine workspace"] == 0.5 * GIB
    assert held.cache == GIB and held.room == 8 * GIB
    assert held.peak("update") == sum(update.values())


def test_what_is_divided_over_ranks_and_what_is_not(small):
    one = memory(small.model, small.work(), small.card()).peaks["update"]
    four = memory(small.model, small.work(ranks=4, shards=4, micro_batch=1), small.card()).peaks["update"]
    assert four["AdamW"] == one["AdamW"] / 4 and four["gradients"] == one["gradients"] / 4
    assert four["unsharded gradients, until the last micro-batch"] == one["gradients"]
    sharded = memory(small.model, small.work(ranks=4, shards=4, micro_batch=1, sharded_gradients=True), small.card())
    assert "unsharded gradients, until the last micro-batch" not in sharded.peaks["update"]
    deep = replace(small.model, layers=5)
    ways = (small.work(ranks=4, shards=4, micro_batch=1, reshard_after_forward=way) for way in (True, False))
    anew, once = (memory(deep, work, small.card()).peaks["update"] for work in ways)
    kept = once["unsharded weights, until the last micro-batch"]
    assert kept == 2 * deep.parameters > anew["gathered weights"]


def test_weights_on_their_way_to_the_engine_are_whole_beside_two_copies_of_a_part(small):
    """1.5 B over two cards took 0.91 GiB, of which the embedding is 0.43."""
    large = replace(small.model, vocabulary=151_936, hidden=1536)
    two = memory(large, small.work(ranks=2, shards=2), small.card(memory=80.0)).peaks["weight sync"]
    assert two["weights being sent"] == max(2**29, 2 * large.head) * 2
    assert two["weights being sent"] / GIB == pytest.approx(0.91, rel=0.15)


def test_in_wide_layers_the_peak_is_inside_one(small):
    wide = replace(small.model, intermediate=10_000)
    update = memory(wide, small.work(checkpointing="full"), small.card()).peaks["update"]
    assert update["a layer's backward pass"] == backward_buffers(wide, small.work(checkpointing="full")) * 2 * 16
    assert "logits" not in update


def test_a_rollout_that_is_read_by_its_update_is_not_read_before(small):
    assert "old log-probs" in memory(small.model, small.work(), small.card()).peaks
    assert "old log-probs" not in memory(small.model, small.work(reuse_update_forward=True), small.card()).peaks
    assert (
        "old log-probs"
        in memory(small.model, small.work(reuse_update_forward=True, reference=True), small.card()).peaks
    )


def test_adapters_learn_beside_frozen_weights(small):
    n, own = small.model.parameters, 2 * 3 * (10 + 20 + 20 + 10)
    work = small.work(adapter=Adapter(3, ("q_proj", "down_proj"), 2))
    update = memory(small.model, work, small.card()).peaks["update"]
    assert (update["weights, fp32"], update["AdamW"], update["gradients"]) == (4 * own, 8 * own, 4 * own)
    assert update["frozen weights"] == 2 * n and update["weights in bf16"] == 2 * own
    assert "gradient of the head" not in update


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"checkpointing": "selective"}, {}),
        ({"checkpointing": "full"}, {"checkpointing": "selective"}),
        ({"compiled": True}, {}),
        ({"micro_batch": 1}, {}),
        ({"logits_chunk": 4}, {}),
        ({"max_tokens": 8}, {}),
        ({}, {"reference_weights": True}),
    ],
)
def test_settings_that_save_memory_save_it(small, less, more):
    saving, costly = (memory(small.model, small.work(**new), small.card()).peak("update") for new in (less, more))
    assert saving < costly


def test_an_engine_takes_its_share_or_what_it_is_given(small):
    work, card, weights = small.work(), small.card(), 2 * small.model.parameters
    engine = work.engine
    assert engine_bytes(small.model, engine, card) == (weights, GIB)
    shared = engine_bytes(small.model, replace(engine, cache=None), card)
    assert shared == (weights, 0.5 * 10 * GIB - weights - 3 * 4 * 1000 * 8)
    free = engine_bytes(small.model, replace(engine, cache=None, share=None), card)
    assert free == (weights, 8 * 20 * small.model.cache(2))
    assert engine_bytes(small.model, None, card) == (0, 0)
    awake = memory(small.model, small.work(engine=replace(engine, sleep_level=0)), card)
    assert awake.peaks["update"]["engine, which does not sleep"] == weights + GIB
