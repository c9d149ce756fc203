"""What vLLM's engine is built with, from a sampler's settings and from where it runs."""

# pyright: basic

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from isentropic.sampler.vllm import VllmSampler

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def engine_settings(sampler: "VllmSampler") -> dict[str, Any]:
    from vllm.platforms import current_platform

    settings: dict[str, Any] = {
        "skip_tokenizer_init": True,
        "generation_config": "vllm",  # no sampling defaults of the model's own
        "dtype": sampler.dtype,
        "load_format": sampler.load_format,
        "logprobs_mode": "processed_logprobs",
        "max_model_len": sampler.max_model_len,
        "max_num_seqs": sampler.max_num_seqs,
        "max_num_batched_tokens": sampler.max_num_batched_tokens,
        "kv_cache_memory_bytes": None if sampler.kv_cache_gib is None else int(sampler.kv_cache_gib * 2**30),
        "gpu_memory_utilization": sampler.gpu_memory_utilization,
        "enforce_eager": sampler.enforce_eager,
        "enable_sleep_mode": sampler.sleep_level > 0,
        "tensor_parallel_size": sampler.tensor_parallel_size,
        "use_tqdm_on_load": False,
        "seed": 0,
    }
    if sampler.short_way:
        from isentropic.sampler.scheduling import scheduler

        settings["scheduler_cls"] = scheduler(asynchronous=not current_platform.is_cpu())
    if current_platform.is_cpu():
        # a seeded request whose prompt is read in chunks crashes there: "CPU Generator does not use offset"
        settings["enable_chunked_prefill"] = False
        settings["max_num_batched_tokens"] = max(sampler.max_num_batched_tokens, sampler.max_model_len)
        settings["enable_sleep_mode"] = False
    if dist.is_initialized() and dist.get_world_size() > 1:
        settings["distributed_executor_backend"] = "external_launcher"
    return settings
