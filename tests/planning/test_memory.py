"""By hand on a small model, and against what autograd keeps and AdamW holds for the shipped one."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isentropic.planning.architecture import architecture
from isentropic.planning.memory import GIB, activations, engine_bytes, memory

ASSETS = Path(__file__).parents[2] / "src" / "isentropic" / "assets"
SHIPPED = str(ASSETS / "countdown")


def model_of(dtype):
    from isentropic.policy.model import LanguageModel, ModelSettings

    return LanguageModel(ModelSettings(SHIPPED, dtype, 4096, False, "none", False))


def saved(policy, rows=3, width=66):
    """Bytes per token that autograd keeps of a forward pass, without weights and their copies."""
    tokens = torch.randint(2, 20, (rows, width))
    mask = torch.zeros(rows, width, dtype=torch.bool)
    mask[:, -2:] = True
    kept = {}
    shapes = {tuple(p.shape) for p in policy.parameters()} | {tuple(p.shape[::-1]) for p in policy.parameters()}

    def pack(x):
        if tuple(x.shape) not in shapes:
            kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes(), x
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        policy(tokens, mask, width, 1.0, "none")
    return sum(size for size, _ in kept.values()) / (rows * (width - 1))


@pytest.mark.parametrize(("dtype", "size", "shards"), [("float32", 4, 1), ("bfloat16", 2, 1), ("bfloat16", 2, 2)])
def test_activations_are_what_autograd_keeps(small, dtype, size, shards):
    """Within a tenth. Under FSDP layers have their weights in bf16, as here the whole model has."""
    policy = model_of(dtype)
    if shards > 1:
        policy.lm.to(torch.bfloat16)
    shipped = architecture(SHIPPED, str(ASSETS / "architectures.yaml"))
    reckoned = shipped.layers * activations(shipped, small.work(size=size, shards=shards))
    assert saved(policy) == pytest.approx(reckoned, rel=0.1)


def test_weights_gradients_and_optimizer_are_what_torch_holds(small):
    policy = model_of("float32")
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
    assert update["logits of a chunk"] == 14 * 1000 * 8, "a chunk is less than the 20 tokens of two answers"
    norms, attention, mlp = 10 * (4 * 4 + 5 * 2), 2 * (3 * 20 + 2 * 10) + 4 * 4, 4 * 2 * 20
    backward = 3 * 2 * 20 + 2 * 4 * 10
    assert update["activations"] == 2 * 16 * (2 * (norms + attention + mlp) + backward)
    assert update["weights in bf16"] == 2 * (2 * small.model.products + 1000 * 10)
    assert held.peaks["rollout"]["engine weights"] == 2 * n
    assert held.cache == GIB and held.room == 8 * GIB
    assert held.peak("update") == sum(update.values())


def test_what_is_divided_over_ranks_and_what_is_not(small):
    one = memory(small.model, small.work(), small.card()).peaks["update"]
    four = memory(small.model, small.work(ranks=4, shards=4, micro_batch=1), small.card()).peaks["update"]
    assert four["AdamW"] == one["AdamW"] / 4 and four["gradients"] == one["gradients"] / 4
    assert four["gradients, whole until the last micro-batch"] == one["gradients"]
    sharded = memory(small.model, small.work(ranks=4, shards=4, micro_batch=1, sharded_gradients=True), small.card())
    assert "gradients, whole until the last micro-batch" not in sharded.peaks["update"]


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"checkpointing": True}, {}),
        ({"micro_batch": 1}, {}),
        ({"chunk": 4}, {}),
        ({"longest": 8}, {}),
        ({}, {"reference": True}),
        ({}, {"entropy_gradient": True}),
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
    awake = memory(small.model, small.work(engine=replace(engine, sleeps=False)), card)
    assert awake.peaks["update"]["engine, which does not sleep"] == weights + GIB
