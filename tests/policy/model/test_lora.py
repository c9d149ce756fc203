"""Narrow matrices learn beside a frozen base. What two ranks make of them is in test_sharding.py."""

from dataclasses import replace

import pytest
import torch
from lightning import Callback
from transformers import AutoModelForCausalLM

from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.lora import LoraSettings, without

TARGETS = ["q_proj", "k_proj", "gate_proj"]


def low_rank(**settings):
    defaults = {"rank": 3, "alpha": 6.0, "targets": TARGETS, "base_dtype": "float32", "seed": 0}
    return LoraSettings(**(defaults | settings))


def adapted(path, compute="float32", moved=True, **settings):
    model = LanguageModel(ModelSettings(path, compute, 16, False, "none", False), None, low_rank(**settings))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            if moved and value.requires_grad:
                value += 0.2 * torch.randn(value.shape, generator=generator)
    return model


def test_training_starts_from_the_base_and_moves_adapters_alone(policy, fit, rollout, tiny_model):
    module = policy(adapter=low_rank(), lr=1e-1)
    fit(module, [rollout])
    batch, *_ = module.last_rollout
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(tiny_model)(batch.tokens).logits[:, :-1]
    expected = logits.log_softmax(-1).gather(-1, batch.tokens[:, 1:, None])[..., 0]
    torch.testing.assert_close(batch.old_logp[batch.mask], expected[batch.mask[:, 1:]], atol=1e-5, rtol=0)
    base = AutoModelForCausalLM.from_pretrained(tiny_model).state_dict()
    sent = dict(module.weights())
    moved = {name.split(".")[-2] for name in base if not torch.equal(base[name], sent[name])}
    assert sent.keys() == base.keys() and moved == set(TARGETS)
    learnt = {name for name, value in module.named_parameters() if value.requires_grad}
    assert learnt == {name for name in module.state_dict()} and all(".lora_" in name for name in learnt)


@pytest.mark.parametrize("base_dtype", ["float32", "bfloat16"])
def test_what_is_sent_acts_as_the_policy_and_leaves_it_as_it_is(tiny_model, base_dtype):
    model = adapted(tiny_model, base_dtype=base_dtype)
    assert {value.dtype for name, value in model.named_parameters() if value.requires_grad} == {torch.float32}
    before = {name: value.clone() for name, value in model.lm.state_dict().items()}
    merged = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    merged.load_state_dict(dict(model.weights("float32")))
    assert all(torch.equal(value, before[name]) for name, value in model.lm.state_dict().items())
    tokens, mask = torch.randint(24, (3, 11)), torch.arange(11).expand(3, 11) > 2
    with torch.no_grad():
        logp, *_ = model(tokens, mask, 11, 1.0)
        expected = merged(tokens).logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    torch.testing.assert_close(logp[:, 3:], expected[:, 2:], atol=1e-5, rtol=1e-5)


def test_the_same_seed_begins_alike_and_another_otherwise(tiny_model):
    first, again, other = (
        {name: value for name, value in adapted(tiny_model, moved=False, seed=seed).state_dict().items()}
        for seed in (0, 0, 1)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert {name.split(".lora_")[1][0] for name in first if not torch.equal(first[name], other[name])} == {"A"}


def test_without_its_adapters_the_base_answers(tiny_model):
    model = adapted(tiny_model)
    tokens, mask = torch.randint(24, (3, 11)), torch.arange(11).expand(3, 11) > 2
    plain = LanguageModel(model.settings)
    with torch.no_grad():
        with without(model.modules()):
            base = model(tokens, mask, 11, 1.0)[0]
        assert torch.equal(base, plain(tokens, mask, 11, 1.0)[0])
        assert (model(tokens, mask, 11, 1.0)[0] - base).abs().max() > 0.1


def test_a_reference_that_is_the_base_is_the_policy_without_its_adapters(policy, fit, rollout, tiny_model):
    from isentropic.algorithm.penalty.kl import Kl

    module = policy(reference=tiny_model, adapter=low_rank(), lr=1e-1)
    object.__setattr__(module.algorithm, "penalty", {"kl": Kl(0.1, "k3")})
    batches = []

    class Look(Callback):
        def on_train_batch_end(self, trainer, pl_module, *_):
            batches.append(pl_module.last_rollout.batch)

    fit(module, [rollout, replace(rollout)], callbacks=[Look()])
    assert module.reference.model is module.policy
    first, second = batches
    assert torch.equal(first.ref_logp, first.old_logp)
    assert torch.equal(second.ref_logp, first.ref_logp) and not torch.equal(second.old_logp, first.old_logp)


def test_what_cannot_be_is_refused(tiny_model):
    for settings, said in (
        ({"rank": 0}, "rank=0 must be at least 1"),
        ({"alpha": 0.0}, "alpha=0.0 above 0"),
        ({"base_dtype": "float16"}, "base_dtype=float16 is not one of"),
        ({"targets": []}, r"targets=\[\] leaves nothing"),
    ):
        with pytest.raises(ValueError, match=said):
            low_rank(**settings)
    for targets in (["q_proj", "query"], ["lm_head"]):
        with pytest.raises(ValueError, match=f"{targets[-1]}, for which .* it has down_proj, gate_proj"):
            adapted(tiny_model, targets=targets)
