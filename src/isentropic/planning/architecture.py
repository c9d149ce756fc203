"""A decoder by its config.json: how many parameters, where they are, and what a token costs in it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from isentropic.policy.model.packed_attention import PACKABLE

FAMILIES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True)
class Architecture:
    """A dense decoder of rotary attention with grouped keys, RMS norms and a gated MLP. Counts are of numbers."""

    family: str
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool
    biased: bool  # queries, keys and values
    context: int  # tokens it reads
    padded: str | None = None  # why its rows are read padded, whatever policy.model.packing says; None where they pack
    windowed: bool = False  # some layers see only the last tokens, so that prompts are not shared

    @property
    def queries(self) -> int:
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def products(self) -> int:
        """Weights of a layer that take part in a matrix product."""
        return self.hidden * (2 * self.queries + 2 * self.keys) + 3 * self.hidden * self.intermediate

    @property
    def layer(self) -> int:
        biases = self.queries + 2 * self.keys if self.biased else 0
        norms = 2 * self.hidden + (2 * self.head_dim if self.family == "qwen3" else 0)
        return self.products + biases + norms

    @property
    def head(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def outside(self) -> int:
        """Embedding, head and last norm, which FSDP keeps together."""
        return self.head * (1 if self.tied else 2) + self.hidden

    @property
    def parameters(self) -> int:
        return self.layers * self.layer + self.outside

    def adapters(self, rank: int, targets: Sequence[str]) -> int:
        """Numbers of LoRA's narrow matrices beside the weights that end in one of these names."""
        shapes = {
            "q_proj": (self.hidden, self.queries),
            "k_proj": (self.hidden, self.keys),
            "v_proj": (self.hidden, self.keys),
            "o_proj": (self.queries, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }
        return self.layers * rank * sum(sum(shapes[name]) for name in targets if name in shapes)

    @property
    def tensors(self) -> int:
        """Of its state, tied aliases included."""
        return self.layers * (9 + 3 * self.biased + 2 * (self.family == "qwen3")) + 3

    def cache(self, size: int) -> int:
        """Bytes of keys and values of one token, at `size` bytes a number."""
        return 2 * self.layers * self.keys * size

    def attention(self, width: int) -> float:
        """Floating-point operations of causal attention in all layers over one row."""
        return 2.0 * self.layers * self.queries * width**2


def architecture(path: str, table: str, called: str = "policy.model.path") -> Architecture:
    """From the folder's config.json, from the `table` of known models, or else from the hub.

    `called` is what the user named it by. Raises ValueError for a model that none of them has, and for one that is no
    dense decoder.
    """
    known = models(table)
    file = Path(path).expanduser() / "config.json"
    if file.is_file():
        return read(f"{called}={path}", json.loads(file.read_text(encoding="utf-8")))
    if path in known:
        return read(f"{called}={path}", known[path])
    from transformers import AutoConfig

    try:
        return read(f"{called}={path}", AutoConfig.from_pretrained(path).to_dict())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{called}={path} is neither a model folder, nor in the table of known models, nor "
            f"given by the hub here; known are {', '.join(known)}"
        ) from error


@cache
def models(table: str) -> dict[str, dict[str, Any]]:
    return cast(dict[str, dict[str, Any]], OmegaConf.to_container(OmegaConf.load(table)))


def read(named: str, config: Mapping[str, Any]) -> Architecture:
    family = str(config.get("model_type"))
    if family not in FAMILIES:
        raise ValueError(
            f"{named} is a model of type {family}, which cannot be planned; only {', '.join(FAMILIES)} can"
        )
    hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    return Architecture(
        family=family,
        vocabulary=int(config["vocab_size"]),
        hidden=hidden,
        intermediate=int(config["intermediate_size"]),
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        tied=bool(config.get("tie_word_embeddings", False)),
        biased=family == "qwen2" or bool(config.get("attention_bias", False)),
        context=int(config["max_position_embeddings"]),
        padded=why_padded(config),
        windowed="sliding_attention" in kinds(config)
        or bool(config.get("use_sliding_window") and config.get("sliding_window")),
    )


def kinds(config: Mapping[str, Any]) -> set[str]:
    """Of its layers."""
    return set(config.get("layer_types") or ["full_attention"])


def why_padded(config: Mapping[str, Any]) -> str | None:
    """As a run finds at its start, of what config.json tells."""
    if others := kinds(config) - PACKABLE:
        return f"its layers are of the kinds {', '.join(sorted(others))}"
    return "its attention caps its scores" if config.get("attn_logit_softcapping") else None
