"""By hand on a small model, and against what autograd keeps of the shipped one."""

from pathlib import Path

import pytest
import torch

from isentropic.planning.activations import backward_buffers, kept, layer
from isentropic.planning.architecture import architecture

ASSETS = Path(__file__).parents[2] / "src" / "isentropic" / "assets"
SHIPPED = str(ASSETS / "countdown")


def saved(dtype, checkpointing, rows=3, width=66):
    """Bytes per token that autograd keeps of a forward pass, without weights and their copies."""
    from isentropic.policy.model.language_model import LanguageModel, ModelSettings

    policy = LanguageModel(ModelSettings(SHIPPED, dtype, 4096, False, checkpointing, False))
    tokens = torch.randint(2, 20, (rows, width))
    mask = torch.zeros(rows, width, dtype=torch.bool)
    mask[:, -2:] = True
    found = {}
    shapes = {tuple(p.shape) for p in policy.parameters()} | {tuple(p.shape[::-1]) for p in policy.parameters()}

    def pack(x):
        if tuple(x.shape) not in shapes:
            found[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes(), x
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        policy(tokens, mask, width, 1.0, "none")
    return sum(size for size, _ in found.values()) / (rows * (width - 1))


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2)])
def test_activations_are_what_autograd_keeps(small, dtype, size):
    """Within a tenth; and what checkpointing saves, which leaves out what is kept outside of layers."""
    shipped = architecture(SHIPPED, str(ASSETS / "architectures.yaml"))
    most, least = (shipped.layers * kept(shipped, small.work(size=size, checkpointing=how)) for how in ("none", "full"))
    assert saved(dtype, "none") == pytest.approx(most, rel=0.1)
    assert saved(dtype, "none") - saved(dtype, "full") == pytest.approx(most - least, rel=0.1)


def test_a_layer_by_hand(small):
    norms, attention, mlp = 2 * 10 * (4 + 2 * 2), 2 * (3 * 20 + 2 * 10) + 4 * 4, 4 * 2 * 20
    assert layer(small.model, small.work()) == norms + attention + mlp
    fused = 2 * (4 * 10 + 2 * 20 + 2 * 10 + 3 * 20) + 4 * 4
    assert layer(small.model, small.work(compiled=True)) == fused


def test_what_is_kept_is_computed_again_the_less(small):
    works = [small.work(checkpointing=how, compiled=True) for how in ("full", "selective", "none")]
    assert kept(small.model, works[0]) == 2 * 10
    assert kept(small.model, works[1]) == 2 * (10 + 2 * (20 + 10 + 10 + 20)) + 4 * 4
    least, some, most = (kept(small.model, work) for work in works)
    assert least < some < most == layer(small.model, works[2])
    most, some, least = (backward_buffers(small.model, work) for work in works)
    assert least == 2 * (3 * 20 + 2 * 10) < some < most
