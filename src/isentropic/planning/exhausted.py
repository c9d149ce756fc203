"""What to lower where a run has found no more memory."""

from collections.abc import Mapping
from typing import Any

import torch

ON_CPU = "can't allocate memory", "Cannot allocate memory", "std::bad_alloc"
MORE = "isentropic plan with the same settings says at which moment most is held, and the last checkpoint is intact"


def ran_out(error: BaseException) -> bool:
    """Of a GPU, or of the host: torch has an error of its own for the first alone."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(text in str(error) for text in ON_CPU)


def what_to_lower(phase: str, settings: Mapping[str, Any]) -> str:
    """By the settings that decide what the phase holds, with their values."""
    if phase.rpartition("/")[2] in ("sampling", "the engine's start", "the first sync", "sync"):
        names = ["sampler.kv_cache_gib", "sampler.gpu_memory_utilization", "sampler.max_num_seqs"]
    else:
        names = ["policy.optimization.max_tokens_per_micro_batch", "policy.optimization.micro_batch"]
        names += ["policy.model.logits_chunk"]
    lower = [f"{name}={value}" for name in names if (value := value_of(settings, name)) is not None]
    other = ""
    if names[0].startswith("policy") and value_of(settings, "policy.model.activation_checkpointing") != "full":
        other = ", or take policy.model.activation_checkpointing=full"
    return f"lower {' or '.join(lower)}{other}; {MORE}" if lower else MORE


def value_of(settings: Mapping[str, Any], name: str) -> Any:
    """None where there is no such setting."""
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
