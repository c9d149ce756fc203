"""Two rows through a model's own forward and through ours, as soon as it is loaded."""

import warnings

import pytest
import torch
from transformers import AutoModelForCausalLM

from isentropic.policy.batching.micro_batches import micro_batches
from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.lora import LoraSettings
from isentropic.policy.model.two_rows import checked

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}


@pytest.fixture
def saved(tmp_path):
    """The folder of a tiny model of a type, with settings of its config."""

    def save(name, **settings):
        from transformers import CONFIG_MAPPING

        torch.manual_seed(0)
        config = CONFIG_MAPPING[name](**(SIZES | settings))
        AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(tmp_path)
        return str(tmp_path)

    return save


def loaded(path, dtype="float32", share=False, adapter=None, packing=True):
    """The policy, and what was said while it was loaded."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = LanguageModel(ModelSettings(path, dtype, 64, packing, "none", False, share), None, adapter)
    return model, [str(one.message).replace(path, "it") for one in said if str(one.message).startswith(path)]


def worst(model, path, length=31):
    """How far packed log-probs are from transformers' own, in nats, in train mode."""
    tokens = torch.randint(2, 40, (3, length), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(length).expand(3, -1) > 4
    own = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=torch.float32)
    with torch.no_grad():
        expected = own(tokens).logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    (micro,) = micro_batches(mask, None, None, model.packed)
    rows = micro.rows
    logp = model.train()(tokens[rows], mask[rows], micro.width, 1.0, "none", micro.packed)[0].detach()
    return float((logp[:, 5:] - expected[rows][:, 4:]).abs().max())


@pytest.mark.parametrize("window", [3, 16, 4096])
def test_packed_rows_keep_to_a_window_however_long(saved, window):
    path = saved("mistral", sliding_window=window, max_position_embeddings=8192)
    model, said = loaded(path)
    assert model.packed and said == []
    assert worst(model, path) < 1e-4
    assert {layer.self_attn.config.sliding_window for layer in model.layers} == {window}


def test_prompts_are_not_shared_by_layers_with_a_window(saved):
    model, said = loaded(saved("mistral", sliding_window=7), share=True)
    assert model.packed and not model.shares_prompts
    assert said == [
        "it reads each answer's prompt in spite of policy.model.share_prompts=true, as layers see 7 tokens at most"
    ]


def test_rows_that_would_see_each_other_are_padded(saved):
    path = saved("nemotron")
    model, (said,) = loaded(path)
    assert not model.packed and worst(model, path) < 1e-4
    assert (
        "reads padded rows in spite of policy.model.packing=true, as packed rows of the model type nemotron are" in said
    )


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize(
    ("name", "scaling"),
    [("cohere", {"logit_scale": 0.25}), ("granite", {"logits_scaling": 4.0}), ("nanochat", {"head_dim": 8})],
)
def test_a_head_that_scales_or_caps_is_the_models_own(saved, name, scaling, packing):
    path = saved(name, **scaling)
    model, _ = loaded(path, packing=packing)
    assert model.uses_own_head and model.packed == packing and worst(model, path) < 1e-4


def test_an_own_head_has_the_gradient_of_the_whole_model(saved):
    path = saved("cohere", logit_scale=0.25)
    model, _ = loaded(path)
    tokens = torch.randint(2, 40, (2, 12))
    mask = torch.arange(12).expand(2, -1) > 0
    model(tokens, mask, 12, 1.0, "none")[0].sum().backward()
    own = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    own(tokens).logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None]).sum().backward()
    ours = dict(model.lm.named_parameters())
    for key, value in own.named_parameters():
        torch.testing.assert_close(ours[key].grad, value.grad, atol=1e-4, rtol=1e-4)


def test_a_model_that_draws_while_it_learns_stays_in_eval_mode(saved):
    path = saved("phimoe", num_local_experts=4, router_jitter_noise=0.3)
    model, said = loaded(path)
    assert model.always_eval and "stays in eval mode while it learns" in said[0]
    assert model.train().training and not any(part.training for part in model.lm.modules())
    assert worst(model, path) < 1e-4


def test_scores_that_only_eager_attention_caps_are_capped(saved):
    path = saved("gemma2", head_dim=8, attn_logit_softcapping=0.5, sliding_window=64)
    model, (said,) = loaded(path)
    assert not model.packed and said.endswith("as its attention caps its scores")
    assert worst(model, path) < 1e-4


def test_a_model_that_sees_ahead_is_refused_in_one_sentence(saved):
    path = saved("bert")
    with pytest.raises(
        ValueError, match="the model type bert cannot be had, as it sees the tokens after the one"
    ) as said:
        LanguageModel(ModelSettings(path, "float32", 64, False, "none", False))
    assert "\n" not in str(said.value) and "docs/models.md" in str(said.value)


def test_the_check_leaves_nothing_behind(tiny_model):
    torch.manual_seed(7)
    LanguageModel(ModelSettings(tiny_model, "float32", 64, True, "none", False))
    after = torch.rand(3)
    torch.manual_seed(7)
    AutoModelForCausalLM.from_pretrained(tiny_model)
    assert torch.equal(after, torch.rand(3))
    model, said = loaded(tiny_model, share=True)
    assert model.packed and model.shares_prompts and model.training and said == []
    assert all(parameter.grad is None for parameter in model.parameters())
    with checked(model) as check:
        assert not model.lm.training and check.packed() < 1e-4 and check.shared() < 1e-4
    assert model.lm.training


def test_bf16_and_adapters_pass_too(tiny_model):
    adapter = LoraSettings(rank=3, alpha=6.0, targets=["q_proj"], base_dtype="bfloat16", seed=0)
    for how in ({"dtype": "bfloat16"}, {"adapter": adapter}, {"dtype": "bfloat16", "adapter": adapter}):
        model, said = loaded(tiny_model, share=True, **how)
        assert model.packed and model.shares_prompts and not model.uses_own_head and said == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_wrong_is_told_from_rounding(saved, dtype, monkeypatch):
    """Packed attention in which rows see each other, as where a model goes around it."""
    path = saved("llama", initializer_range=0.02)  # as most are made, nearly uniform

    def one_row(*heads, scaling=None, **settings):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(*heads, scaling=scaling)

    from transformers import AttentionInterface

    monkeypatch.setitem(AttentionInterface._global_mapping, "isentropic", one_row)
    model, (said,) = loaded(path, dtype)
    assert not model.packed and "packed rows of the model type llama are" in said
