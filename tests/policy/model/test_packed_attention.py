from itertools import accumulate, chain, pairwise

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from isentropic.policy.model.packed_attention import packed_attention, unpackable

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


@pytest.mark.parametrize("window", [1, 2, 5, 7, 100])
def test_a_window_hides_what_lies_before_it_in_value_and_gradient(window):
    gradient = torch.randn(11, 4, 8, dtype=torch.float64)
    ours, theirs = heads(), heads()
    out = packed_attention(*ours, torch.tensor(EDGES, dtype=torch.int32), 7, 0.3, window=window)[0]
    row = torch.bucketize(torch.arange(11), torch.tensor(EDGES[1:]), right=True)
    back = torch.arange(11)[:, None] - torch.arange(11)
    seen = (row[:, None] == row) & (back >= 0) & (back < window)
    q, k, v = (x.transpose(0, 1) for x in theirs)
    expected = scaled_dot_product_attention(q, k, v, seen, scale=0.3, enable_gqa=True).transpose(0, 1)
    torch.testing.assert_close(out, expected)
    out.backward(gradient)
    expected.backward(gradient)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-5)


def test_models_that_keep_a_state_or_know_one_attention_alone_are_not_packed():
    from transformers import Gemma2Config, GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM

    narrow = Qwen2Config(use_sliding_window=True, sliding_window=8, max_window_layers=1, num_hidden_layers=2)
    assert unpackable(narrow, Qwen2ForCausalLM) is None
    assert unpackable(Qwen2Config(num_hidden_layers=2), Qwen2ForCausalLM) is None
    assert unpackable(GPT2Config(), GPT2LMHeadModel) is None
    assert unpackable(GPT2Config(), torch.nn.Module()) == "transformers gives it no choice of attention"
    assert unpackable(Gemma2Config(), Qwen2ForCausalLM) == "its attention caps its scores"
    stateful = Qwen2Config(num_hidden_layers=2)
    stateful.layer_types = ["full_attention", "linear_attention"]
    assert unpackable(stateful, Qwen2ForCausalLM) == "its layers are of the kinds full_attention, linear_attention"


ANSWERS = [0, 4, 5, 8]


def settings():
    cu_seqlens = torch.tensor([0, 3, 4, 6, 8, 10, 11, 14], dtype=torch.int32)
    return cu_seqlens, torch.tensor([0, 1, 2, 0, 1, 2, 3, 4, 5]), torch.tensor([0, 3, 6, 7, 9], dtype=torch.int32)


def dense(query, key, value, scale):
    """Everything at once, behind a mask."""
    edges, seen = settings()[0].tolist(), torch.zeros(14, 14, dtype=torch.bool)
    for begin, end in pairwise(edges):
        seen[begin:end, begin:end] = torch.ones(end - begin, end - begin).tril().bool()
    for prompt, (begin, end) in enumerate(pairwise(ANSWERS)):
        seen[6 + begin : 6 + end, edges[prompt] : edges[prompt + 1]] = True
    q, k, v = (x.transpose(0, 1) for x in (query, key, value))
    return scaled_dot_product_attention(q, k, v, seen, scale=scale, enable_gqa=True).transpose(0, 1)


def random_heads(key_heads, dtype=torch.float64):
    torch.manual_seed(0)
    return [torch.randn(14, n, 8, dtype=dtype, requires_grad=True) for n in (4, key_heads, key_heads)]


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_answers_read_themselves_and_their_prompt_alone_in_value_and_gradient(key_heads):
    cu_seqlens, *shared = settings()
    gradient = torch.randn(14, 4, 8, dtype=torch.float64)
    ours, theirs = random_heads(key_heads), random_heads(key_heads)
    out = packed_attention(*ours, cu_seqlens, 3, 0.3, *shared, 6, 3)[0]
    expected = dense(*theirs, 0.3)
    torch.testing.assert_close(out, expected)
    out.backward(gradient)
    expected.backward(gradient)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-5)


def flash_forward(query, key, value, own, seen, longest, most, dropout, causal, debug, *, scale):
    """What torch's flash attention returns first, by the formula."""
    out, lse = torch.empty_like(query), torch.empty(query.shape[1], len(query), dtype=query.dtype)
    for mine, theirs, scores in scored(query, key, own, seen, longest, most, causal, scale):
        lse[:, mine] = scores.logsumexp(-1)
        out[mine] = torch.einsum("hlm,mhd->lhd", scores.softmax(-1), spread(value, query)[theirs])
    return out, lse


def flash_backward(gradient, query, key, value, out, lse, own, seen, longest, most, dropout, causal, *rest, scale):
    found = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    wide_key, wide_value, shares = spread(key, query), spread(value, query), query.shape[1] // key.shape[1]
    for mine, theirs, scores in scored(query, key, own, seen, longest, most, causal, scale):
        p, g = (scores - lse[:, mine, None]).exp(), gradient[mine]
        slope = torch.einsum("lhd,mhd->hlm", g, wide_value[theirs]) - (g * out[mine]).sum(-1).T[..., None]
        found[0][mine] = scale * torch.einsum("hlm,mhd->lhd", p * slope, wide_key[theirs])
        for x, part in (
            (1, scale * torch.einsum("hlm,lhd->mhd", p * slope, query[mine])),
            (2, torch.einsum("hlm,lhd->mhd", p, g)),
        ):
            found[x][theirs] = part.unflatten(1, (-1, shares)).sum(2)
    return found


def spread(x, query):
    return x.repeat_interleave(query.shape[1] // x.shape[1], 1)


def scored(query, key, own, seen, longest, most, causal, scale):
    for mine, theirs in zip(pairwise(own.tolist()), pairwise(seen.tolist()), strict=True):
        assert mine[1] - mine[0] <= longest and theirs[1] - theirs[0] <= most
        mine, theirs = slice(*mine), slice(*theirs)
        scores = torch.einsum("lhd,mhd->hlm", query[mine], spread(key, query)[theirs]) * scale
        beyond = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
        yield mine, theirs, scores.masked_fill(beyond, -torch.inf) if causal else scores


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_what_is_asked_of_flash_attention_makes_one_softmax(key_heads, monkeypatch):
    """Without a GPU, with formulas in the place of torch's two operators."""
    monkeypatch.setattr("isentropic.policy.model.packed_attention.uses_flash", lambda *heads: True)
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", flash_forward)
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_backward", flash_backward)
    cu_seqlens, *shared = settings()
    gradient = torch.randn(14, 4, 8)
    ours, theirs = random_heads(key_heads, torch.float32), random_heads(key_heads, torch.float32)
    out = packed_attention(*ours, cu_seqlens, 3, 0.3, *shared, 6, 3)[0]
    expected = dense(*theirs, 0.3)
    torch.testing.assert_close(out, expected, atol=1e-6, rtol=1e-5)
    out.backward(gradient)
    expected.backward(gradient)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-5, rtol=1e-5)


def test_with_prompts_too_the_operator_is_one_that_compilers_can_trust():
    inputs = [x.float().detach().requires_grad_() for x in random_heads(2)]
    cu_seqlens, *shared = settings()
    torch.library.opcheck(packed_attention, (*inputs, cu_seqlens, 3, 0.3, *shared, 6, 3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("none", [False, True])
def test_two_calls_of_flash_attention_are_one_softmax(none):
    """In bf16, against one mask in fp32 over the same numbers; with a prompt that nobody answers."""
    torch.manual_seed(0)
    prompts, answers = [70, 5, 33], [[200, 3, 90], [] if none else [1], [64, 64]]
    edges = torch.tensor([0, *prompts, *(length for own in answers for length in own)]).cumsum(0).tolist()
    begins = torch.tensor([0, *map(sum, answers)]).cumsum(0).tolist()
    before, tokens = sum(prompts), edges[-1]
    seen = torch.zeros(tokens, tokens, dtype=torch.bool, device="cuda")
    for begin, end in pairwise(edges):
        seen[begin:end, begin:end] = True
    for prompt, (begin, end) in enumerate(pairwise(begins)):
        seen[before + begin : before + end, edges[prompt] : edges[prompt + 1]] = True
    seen &= torch.ones_like(seen).tril()
    ours = [torch.randn(tokens, n, 64, device="cuda", dtype=torch.bfloat16).requires_grad_() for n in (8, 2, 2)]
    exact = [x.detach().float().requires_grad_() for x in ours]
    read = [range(*edges[own : own + 2]) for own, lengths in enumerate(answers) for _ in lengths]
    ends = [0, *accumulate(map(len, read))]
    cu_seqlens, cu_prompt_lens = (torch.tensor(edge, dtype=torch.int32, device="cuda") for edge in (edges, ends))
    prompt_index = torch.tensor([*chain(*read)], device="cuda")
    out = packed_attention(*ours, cu_seqlens, 200, 0.1, prompt_index, cu_prompt_lens, before, max(prompts))[0]
    q, k, v = (x.transpose(0, 1) for x in exact)
    right = scaled_dot_product_attention(q, k, v, seen, scale=0.1, enable_gqa=True).transpose(0, 1)
    gradient = torch.randn_like(right)
    out.backward(gradient.bfloat16())
    right.backward(gradient)
    for a, b in [(out, right), *((x.grad, y.grad) for x, y in zip(ours, exact, strict=True))]:
        assert (a.float() - b).norm() < 0.01 * b.norm()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("window", [5, 128, 4096])
def test_flash_attention_keeps_to_a_window(window):
    """In bf16, against one mask in fp32 over the same numbers."""
    torch.manual_seed(0)
    edges = torch.tensor([0, 300, 317, 1017], dtype=torch.int32, device="cuda")
    ours = [torch.randn(1017, n, 64, device="cuda", dtype=torch.bfloat16).requires_grad_() for n in (4, 2, 2)]
    exact = [x.detach().float().requires_grad_() for x in ours]
    place = torch.arange(1017, device="cuda")
    row, back = torch.bucketize(place, edges[1:], right=True), place[:, None] - place
    seen = (row[:, None] == row) & (back >= 0) & (back < window)
    out = packed_attention(*ours, edges, 700, 0.1, window=window)[0]
    q, k, v = (x.transpose(0, 1) for x in exact)
    right = scaled_dot_product_attention(q, k, v, seen, scale=0.1, enable_gqa=True).transpose(0, 1)
    gradient = torch.randn_like(right)
    out.backward(gradient.bfloat16())
    right.backward(gradient)
    for a, b in [(out, right), *((x.grad, y.grad) for x, y in zip(ours, exact, strict=True))]:
        assert (a.float() - b).norm() < 0.01 * b.norm()
