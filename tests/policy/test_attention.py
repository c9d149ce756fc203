import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from isentropic.policy.attention import packed_attention, unpackable

EDGES = [0, 3, 4, 11]


def heads(key_heads=2, dtype=torch.float64):
    torch.manual_seed(0)
    return [torch.randn(11, n, 8, dtype=dtype, requires_grad=True) for n in (4, key_heads, key_heads)]


def blocks(query, key, value, scale):
    """All rows at once, behind a mask that parts them."""
    row = torch.bucketize(torch.arange(11), torch.tensor(EDGES[1:]), right=True)
    seen = (row[:, None] == row) & torch.ones(11, 11, dtype=torch.bool).tril()
    q, k, v = (x.transpose(0, 1) for x in (query, key, value))
    return scaled_dot_product_attention(q, k, v, seen, scale=scale, enable_gqa=True).transpose(0, 1)


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_rows_end_to_end_see_themselves_alone_in_value_and_gradient(key_heads):
    gradient = torch.randn(11, 4, 8, dtype=torch.float64)
    ours, theirs = heads(key_heads), heads(key_heads)
    out = packed_attention(*ours, torch.tensor(EDGES, dtype=torch.int32), 7, 0.3)[0]
    expected = blocks(*theirs, 0.3)
    torch.testing.assert_close(out, expected)
    out.backward(gradient)
    expected.backward(gradient)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-5)  # by a formula in fp32


def test_the_operator_is_one_that_compilers_can_trust():
    inputs = [x.float().detach().requires_grad_() for x in heads()]
    torch.library.opcheck(packed_attention, (*inputs, torch.tensor(EDGES, dtype=torch.int32), 7, 0.3))


def test_models_that_see_a_window_or_know_one_attention_alone_are_not_packed():
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM

    narrow = Qwen2Config(use_sliding_window=True, sliding_window=8, max_window_layers=1, num_hidden_layers=2)
    assert unpackable(narrow, Qwen2ForCausalLM) == "its layers are of the kinds full_attention, sliding_attention"
    assert unpackable(Qwen2Config(num_hidden_layers=2), Qwen2ForCausalLM) is None
    assert unpackable(GPT2Config(), GPT2LMHeadModel) is None
    assert unpackable(GPT2Config(), torch.nn.Module()) == "transformers gives it no choice of attention"
