"""What tells one model from another: its shape, and samples of its weights."""

import hashlib
import os
from pathlib import Path

from transformers import PretrainedConfig

from isentropic.policy.model.loading import files

SAMPLE = 2**16  # bytes
SHAPE = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "tie_word_embeddings",
)


def shape(config: PretrainedConfig) -> dict[str, int | str | None]:
    """What tells one model from another, as it stands in a checkpoint."""
    return {key: getattr(config, key, None) for key in SHAPE}


def fingerprint(path: str) -> str:
    """Tells the weights of one model folder from those of another, by names, sizes and samples of its files."""
    digest = hashlib.sha256()
    for name in files(path):
        with open(name, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest.update(f"{Path(name).name} {size}".encode())
            for part in range(64):
                file.seek(part * max(size - SAMPLE, 0) // 63)
                digest.update(file.read(SAMPLE))
    return digest.hexdigest()
