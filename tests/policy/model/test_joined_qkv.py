"""Queries, keys and values by one product: neither readings nor gradients change, nor what weights are called."""

import warnings

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from isentropic.policy.batching.micro_batches import micro_batches
from isentropic.policy.model.joined_qkv import join_qkv
from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.lora import LoraSettings


def loaded(path, joined, dtype="float32", adapter=None):
    settings = ModelSettings(path, dtype, 64, True, "selective", False, joined_qkv=joined)
    return LanguageModel(settings, None, adapter)


def learnt(model, rollout):
    (micro,) = micro_batches(rollout.mask, None, None, True)
    rows = rollout[micro.rows]
    with model.mixed_precision():
        logp = model(rows.tokens, rows.mask, micro.width, 0.7, "none", micro.packed)[0]
        logp.sum().backward()
    return logp.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_readings_and_gradients_are_those_of_products_apart(tiny_model, rollout, dtype, rounding):
    (logp, gradient), (expected, slope) = (learnt(loaded(tiny_model, how, dtype), rollout) for how in (True, False))
    torch.testing.assert_close(logp, expected, atol=rounding, rtol=rounding)
    assert gradient.keys() == slope.keys()
    for name, value in gradient.items():
        assert (value - slope[name]).norm() <= rounding * slope[name].norm() + 1e-7, name


class Products(TorchDispatchMode):
    """Counts matrix products."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), settings=None):
        self.count += function in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return function(*arguments, **(settings or {}))


def test_a_layer_multiplies_less_often_in_both_passes(tiny_model, rollout):
    counts = []
    for joined in (False, True):
        model = loaded(tiny_model, joined)
        with Products() as products:
            learnt(model, rollout)
        counts.append(products.count)
    assert counts[0] - counts[1] == 2 * 3 * len(model.layers)  # forward, gradients of the input and of the weights


def test_weights_keep_their_names_and_are_no_copies(tiny_model):
    apart, one = loaded(tiny_model, False), loaded(tiny_model, True)
    assert apart.state_dict().keys() == one.state_dict().keys()
    for (name, value), (other, same) in zip(apart.weights(), one.weights(), strict=True):
        assert name == other and torch.equal(value, same)
    with torch.no_grad():
        before = one.own_logits(torch.arange(2, 9)[None])
        one.layers[0].self_attn.v_proj.weight.zero_()
        assert not torch.equal(one.own_logits(torch.arange(2, 9)[None]), before)


def test_what_adapters_stand_beside_stays_apart_and_says_so(tiny_model):
    pytest.importorskip("peft")
    adapter = LoraSettings(2, 4.0, ["q_proj"], "float32", 0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = loaded(tiny_model, True, adapter=adapter)
    assert {type(layer.self_attn.k_proj) for layer in model.layers} == {torch.nn.Linear}
    assert any("no layer has plain matrices of the known names" in str(one.message) for one in said)


def test_a_model_of_which_it_would_be_wrong_keeps_its_products_apart(tiny_model, monkeypatch):
    def wrongly(layers):
        changed = join_qkv(layers)
        for layer in layers:
            layer.self_attn.v_proj.begin -= 1
            layer.self_attn.v_proj.end -= 1
        return changed

    monkeypatch.setattr("isentropic.policy.model.self_check.join_qkv", wrongly)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = loaded(tiny_model, True)
    texts = [str(one.message) for one in said]
    assert any("keeps queries, keys and values apart" in text and "nats off" in text for text in texts)
    assert {type(layer.self_attn.v_proj) for layer in model.layers} == {torch.nn.Linear}
