"""Attention of heads that share keys and values, which are read in their places: transformers copies them per head."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "isentropic_grouped"


def grouped_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, Tensor | None]:
    """As transformers' own of torch's kernel; of [B, H, Q, D], and fewer heads of keys and values."""
    plain = attention_mask is None or key.shape[1] == query.shape[1]
    if plain or settings.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    found = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=settings.get("scaling"), enable_gqa=True
    )
    return found.transpose(1, 2).contiguous(), None


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)


def use_grouped_attention(model: Any) -> None:
    """Where the model has torch's kernel; without a gradient, and without dropout."""
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(GROUPED)
