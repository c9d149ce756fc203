"""Is this checkpoint one that the policy can go on from?"""

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from transformers import AutoConfig, PretrainedConfig

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


def check(checkpoint: str, model: str) -> dict[str, Any]:
    """What the policy saved beside its weights.

    Raises ValueError where the file is missing, unreadable, or of another model than the folder or hub name `model`.
    """
    path = Path(checkpoint)
    if not path.exists():
        near = sorted(str(p) for p in path.parent.glob("*.ckpt"))
        there = f"; there are {', '.join(near)}" if near else "; its folder has no checkpoint"
        raise ValueError(f"ckpt_path={checkpoint} does not exist{there}")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, EOFError, UnpicklingError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"ckpt_path={checkpoint} cannot be read and may be cut off: {reason}") from error
    if not isinstance(content, dict) or "isentropic" not in content:
        raise ValueError(f"ckpt_path={checkpoint} was not written by isentropic.train")
    theirs, ours = content["isentropic"]["model"], shape(AutoConfig.from_pretrained(model))
    if theirs != ours:
        difference = ", ".join(f"{k} {theirs[k]} instead of {ours[k]}" for k in SHAPE if theirs[k] != ours[k])
        raise ValueError(f"ckpt_path={checkpoint} is of another model than policy.model.path={model}: {difference}")
    return content["isentropic"]
