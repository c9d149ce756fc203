from types import SimpleNamespace

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from isentropic.sampler.grouped_attention import GROUPED, grouped_attention
from isentropic.sampler.hf import TransformersSampler


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("queries", [1, 7])
def test_heads_that_share_keys_attend_as_those_that_have_copies(heads, queries):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(3, 4, queries, 32, generator=generator)
    key, value = (torch.randn(3, heads, 9, 32, generator=generator) for _ in range(2))
    mask = torch.rand(3, 1, queries, 9, generator=generator) > 0.3
    mask[..., -1] = True
    module = SimpleNamespace(num_key_value_groups=4 // heads, is_causal=True)
    ours, theirs = (
        attend(module, query, key, value, mask, scaling=0.2)[0]
        for attend in (grouped_attention, sdpa_attention_forward)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert ours.shape == (3, queries, 4, 32)


def test_the_sampler_takes_it_on_a_cpu(parts):
    sampler = TransformersSampler(parts.model, "float32", "cpu", 64, 64)
    sampler.start()
    assert sampler.model.config._attn_implementation == GROUPED
