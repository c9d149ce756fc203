import pytest
import torch

from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.layers import CHECKPOINTING


@pytest.fixture(scope="module")
def absolute(tmp_path_factory):
    """A model that knows where a token stands by a learned absolute position."""
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=24, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1)
    GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("pads", [0, 3, 17])
def test_padding_with_garbage_changes_nothing_even_for_learned_positions(absolute, pads):
    model = LanguageModel(ModelSettings(absolute, "float32", 8, False, "none", False))
    tokens, mask = torch.randint(24, (2, 12)), torch.arange(12).expand(2, 12) > 4
    plain, *_ = model(tokens, mask, 12, 1.0)
    garbage = torch.randint(24, (2, pads))
    padded, *_ = model(torch.cat([tokens, garbage], 1), torch.cat([mask, garbage > 99], 1), 12 + pads, 1.0)
    torch.testing.assert_close(padded[:, :12], plain, atol=1e-6, rtol=1e-5)
    assert (padded[:, 12:] == 0).all()


def test_a_model_made_with_dropout_reads_a_token_twice_alike(absolute):
    model = LanguageModel(ModelSettings(absolute, "float32", 8, False, "none", False)).train()
    tokens, mask = torch.randint(24, (2, 12)), torch.arange(12).expand(2, 12) > 4
    first, again = (model(tokens, mask, 12, 1.0)[0] for _ in range(2))
    assert torch.equal(first, again)


def test_weights_saved_in_bf16_are_kept_in_fp32_so_that_a_small_learning_rate_moves_them(tiny_model, tmp_path):
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16).save_pretrained(tmp_path)
    assert AutoModelForCausalLM.from_pretrained(tmp_path).dtype == torch.bfloat16  # what asking for nothing gives
    model = LanguageModel(ModelSettings(str(tmp_path), "float32", 8, False, "none", False))
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    model(torch.randint(24, (3, 11)), torch.arange(11).expand(3, 11) > 2, 11, 1.0)[0].sum().backward()
    optimizer.step()
    after = [p.detach() for p in model.parameters()]
    moved = sum(int((a != b).sum()) for a, b in zip(before, after, strict=True))
    assert moved > 0.9 * sum(b.numel() for b in before)


def test_it_agrees_with_the_whole_logits_of_transformers(tiny_model):
    model = LanguageModel(ModelSettings(tiny_model, "float32", 5, False, "none", False))
    tokens, mask = torch.randint(24, (3, 11)), torch.arange(11).expand(3, 11) > 2
    logp, entropy, _ = model(tokens, mask, 11, 0.7)
    reference = (model.lm(tokens).logits[:, :-1] / 0.7).log_softmax(-1)
    torch.testing.assert_close(logp[:, 3:], reference.gather(-1, tokens[:, 1:, None])[:, 2:, 0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropy[:, 3:], -(reference.exp() * reference).sum(-1)[:, 2:], atol=1e-5, rtol=1e-5)


def test_recomputed_activations_give_the_same_gradient(tiny_model):
    gradients = []
    for again in CHECKPOINTING:
        model = LanguageModel(ModelSettings(tiny_model, "float32", 5, False, again, False))
        torch.manual_seed(0)
        tokens, mask = torch.randint(24, (3, 11)), torch.arange(11).expand(3, 11) > 2
        model(tokens, mask, 11, 1.0)[0].sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    torch.testing.assert_close(gradients[1], gradients[0])
    torch.testing.assert_close(gradients[2], gradients[0])


def test_bf16_compute_keeps_fp32_masters_and_gradients(tiny_model):
    model = LanguageModel(ModelSettings(tiny_model, "bfloat16", 5, False, "none", False))
    tokens, mask = torch.randint(24, (3, 11)), torch.arange(11).expand(3, 11) > 2
    logp, _, _ = model(tokens, mask, 11, 1.0)
    logp.sum().backward()
    assert logp.dtype == torch.float32
    assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {torch.float32}


def test_a_bf16_forward_sees_the_weights_of_this_moment(tiny_model):
    model = LanguageModel(ModelSettings(tiny_model, "bfloat16", 64, False, "none", False))
    tokens, mask = torch.randint(24, (3, 11)), torch.arange(11).expand(3, 11) > 2
    before = model(tokens, mask, 11, 1.0)[0].detach()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
    assert (model(tokens, mask, 11, 1.0)[0] - before).abs().max() > 0.01


def test_the_tied_head_goes_to_the_sampler_under_its_own_name(tiny_model):
    names = dict(LanguageModel(ModelSettings(tiny_model, "float32", 5, False, "none", False)).weights())
    assert torch.equal(names["lm_head.weight"], names["model.embed_tokens.weight"])


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no config\.json"):
        ModelSettings(str(tmp_path), "float32", 5, False, "none", False)
    with pytest.raises(ValueError, match="compute_dtype=float16 is not one of float32, bfloat16"):
        ModelSettings("some/name", "float16", 5, False, "none", False)
    with pytest.raises(ValueError, match="share_prompts=true needs packing=true"):
        ModelSettings("some/name", "float32", 5, False, "none", False, True)
