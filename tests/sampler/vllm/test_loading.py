"""Weights that go straight into the engine's tensors, where these are as they come."""

from types import SimpleNamespace

import pytest
import torch
from fixtures.models import COLOCATED
from torch import nn
from transformers import AutoModelForCausalLM

from isentropic.sampler.vllm import loading
from isentropic.sampler.vllm.colocated import VllmSampler, available


class UnquantizedLinearMethod: ...


class Fp8LinearMethod: ...


class UnquantizedFusedMoEMethod: ...


class MLAAttention(nn.Module): ...


class Engine:
    """What of vLLM's LLM is called: notes which way weights took."""

    def __init__(self, model):
        self.model, self.ways = model, []

    def apply_model(self, function):
        return [function(self.model)]

    def collective_rpc(self, method, kwargs):
        self.ways.append((method, [name for name, _ in kwargs["weights_iterator"]]))


def model_of(*methods, device="cuda"):
    model = nn.Module()
    model.layers = nn.ModuleList(nn.Module() for _ in methods)
    for layer, method in zip(model.layers, methods, strict=True):
        layer.quant_method = method
    weight = SimpleNamespace(is_cuda=device == "cuda")  # a card's, where there is none
    model.parameters = lambda: iter([weight])
    return model


def test_plain_layers_on_a_card_take_weights_as_they_come():
    assert loading.takes_weights_as_they_come(model_of(UnquantizedLinearMethod(), None))


@pytest.mark.parametrize("method", [Fp8LinearMethod(), UnquantizedFusedMoEMethod()])
def test_what_is_quantised_or_mixed_of_experts_does_not(method):
    assert not loading.takes_weights_as_they_come(model_of(UnquantizedLinearMethod(), method))


def test_nor_does_attention_that_keeps_what_it_derives_from_weights():
    model = model_of(UnquantizedLinearMethod())
    model.attention = MLAAttention()
    assert not loading.takes_weights_as_they_come(model)


def test_a_model_that_packs_its_weights_is_loaded_by_the_engine_s_own_way():
    engine = Engine(model_of(UnquantizedLinearMethod(), device="cpu"))
    loading.load(engine, iter([("a", torch.zeros(1))]))
    assert engine.ways == [("reload_weights", ["a"])]


def test_straight_into_the_model_all_weights_arrive():
    model, arrived = model_of(UnquantizedLinearMethod()), []
    model.load_weights = arrived.extend
    engine = Engine(model)
    loading.load(engine, iter([("a", torch.ones(1)), ("b", torch.ones(1))]))
    assert [name for name, _ in arrived] == ["a", "b"] and not engine.ways


@pytest.mark.skipif(not (torch.cuda.is_available() and available()), reason="needs vLLM and a CUDA device")
def test_on_a_card_both_ways_leave_the_same_bits(tiny_model, tiny_model_untied):
    for path in (tiny_model, tiny_model_untied):
        sampler = VllmSampler(path, **(COLOCATED | {"dtype": "bfloat16", "load_format": "dummy"}))
        sampler.start()
        try:
            weights = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).state_dict()
            held = []
            for way in (
                loading.load,
                lambda llm, all: llm.collective_rpc("reload_weights", kwargs={"weights_iterator": all}),
            ):
                sampler.engine.apply_model(
                    lambda model: [weight.data.fill_(7.0) for weight in model.parameters()] and None
                )
                way(sampler.engine, iter(weights.items()))
                held.append(
                    sampler.engine.apply_model(lambda model: [weight.cpu().clone() for weight in model.parameters()])[0]
                )
            assert sampler.engine.apply_model(loading.takes_weights_as_they_come) == [True]
            assert all(torch.equal(ours, theirs) for ours, theirs in zip(*held, strict=True))
        finally:
            sampler.stop()
