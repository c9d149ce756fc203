"""What vLLM's engine is built with, from a sampler's settings and from where it runs."""

# pyright: basic

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
import torch.distributed as dist

from isentropic.sampler import SamplerError

# tokens that are cached together: with vLLM's own 128 nearly every second turn would read the first again
CPU_BLOCK = 32


@runtime_checkable
class EngineSettings(Protocol):
    """What both ways to run an engine are told."""

    dtype: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    kv_cache_gib: float | None
    gpu_memory_utilization: float
    enforce_eager: bool
    cudagraph_sequences: int | None
    tensor_parallel_size: int


OWN, ROOM = 512, 40.0  # sequences of vLLM's own CUDA graphs, and GiB of a card that has room for more of them


@runtime_checkable
class ColocatedSettings(EngineSettings, Protocol):
    """Of an engine in this process."""

    load_format: str
    sleep_level: int
    fast_decode: bool


@runtime_checkable
class ServerSettings(EngineSettings, Protocol):
    """Of an engine behind `vllm serve`."""

    path: str
    transfer: str


def capture_sizes(sampler: EngineSettings, memory: float) -> list[int] | None:
    """Sequences of the steps that are CUDA graphs, on a card of `memory` GiB; None leaves them to vLLM.

    Those of vLLM's own up to 512, then every 64th up to what the setting says and the engine runs at one time. A step
    of more sequences than the last is launched kernel by kernel.
    """
    last = min(sampler.cudagraph_sequences or 0, sampler.max_num_seqs)
    if sampler.enforce_eager or last <= OWN or memory < ROOM:
        return None
    return [1, 2, 4, *range(8, 256, 8), *range(256, OWN, 16), *range(OWN, last, 64), last]


def check_graphs(sampler: EngineSettings) -> None:
    """Raises ValueError for fewer sequences than vLLM's own, which are never too many."""
    asked = sampler.cudagraph_sequences
    if asked is not None and asked <= OWN:
        raise ValueError(
            f"sampler.cudagraph_sequences={asked} is not above {OWN}, up to which all steps are CUDA graphs anyway; "
            "take more, or null"
        )


def card_memory() -> float:
    """GiB of this process's card; 0 without one."""
    return torch.cuda.get_device_properties().total_memory / 2**30 if torch.cuda.is_available() else 0.0


def engine_settings(sampler: ColocatedSettings) -> dict[str, Any]:
    """Arguments of vLLM's LLM for an engine in this process, on CPU or CUDA, of one rank or of a team of them."""
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
    if sizes := capture_sizes(sampler, card_memory()):
        settings["cudagraph_capture_sizes"] = sizes
    if sampler.fast_decode:
        from isentropic.sampler.vllm.fast_scheduler import scheduler

        settings["scheduler_cls"] = scheduler(asynchronous=not current_platform.is_cpu())
    if current_platform.is_cpu():
        # a seeded request whose prompt is read in chunks crashes there: "CPU Generator does not use offset"
        settings["enable_chunked_prefill"] = False
        settings["max_num_batched_tokens"] = max(sampler.max_num_batched_tokens, sampler.max_model_len)
        settings["enable_sleep_mode"] = False
        settings["block_size"] = CPU_BLOCK
    if dist.is_initialized() and dist.get_world_size() > 1:
        settings["distributed_executor_backend"] = "external_launcher"
    return settings


@contextmanager
def starting(path: str) -> Generator[None]:
    """Raises SamplerError for whatever vLLM says against a model or its memory, with what to do about it."""
    try:
        yield
    except (ValueError, RuntimeError, AssertionError, NotImplementedError) as error:
        said = " ".join(str(error).split())[:400] or type(error).__name__
        if isinstance(error, torch.OutOfMemoryError) or re.search("memory|KV cache", said):
            what = (
                "lower sampler.kv_cache_gib or sampler.gpu_memory_utilization, or free what other programs hold; "
                "isentropic plan says how much fits"
            )
        else:
            what = "sampler=transformers answers without vLLM"
        raise SamplerError(f"vLLM could not start with {path} ({said}); {what}") from error


def forget_shared_memory() -> None:
    """vLLM on CPU names what an engine's ranks share by their numbers alone: a run that was killed would leave it, and
    the next could not start. To be called when all ranks hold it; what they hold stays."""
    from vllm.distributed.parallel_state import get_tp_group

    group = get_tp_group()
    name = getattr(getattr(group.device_communicator, "dist_module", None), "group_name", None)
    if name is not None:
        Path("/dev/shm", f"{name.lstrip('/')}_{group.rank_in_group}").unlink(missing_ok=True)


def server_arguments(sampler: ServerSettings) -> list[str]:
    """Of `vllm serve`. Log-probs are processed ones, those of the distribution that is sampled from."""
    cuda = torch.cuda.is_available()
    settings: dict[str, Any] = {
        "model": sampler.path,
        "dtype": sampler.dtype,
        # a file is read by the loader that the server has started with, which must not be the one that reads nothing
        "load-format": "dummy" if sampler.transfer == "nccl" else "auto",
        "generation-config": "vllm",
        "logprobs-mode": "processed_logprobs",
        "max-model-len": sampler.max_model_len,
        "max-num-seqs": sampler.max_num_seqs,
        "max-num-batched-tokens": sampler.max_num_batched_tokens
        if cuda
        else max(sampler.max_num_batched_tokens, sampler.max_model_len),
        "gpu-memory-utilization": sampler.gpu_memory_utilization,
        "tensor-parallel-size": sampler.tensor_parallel_size,
        "scheduler-cls": f"isentropic.sampler.vllm.fast_scheduler.WholeCompletion{'Async' if cuda else ''}Scheduler",
        "uvicorn-log-level": "warning",
        "seed": 0,
    }
    if sampler.kv_cache_gib is not None:
        settings["kv-cache-memory-bytes"] = int(sampler.kv_cache_gib * 2**30)
    if sampler.transfer == "nccl":
        settings["weight-transfer-config"] = '{"backend": "nccl"}'
    flags = ["--tokens-only", "--skip-tokenizer-init"]
    flags += ["--enforce-eager"] if sampler.enforce_eager else []
    if sizes := capture_sizes(sampler, card_memory()):
        flags += ["--cudagraph-capture-sizes", *map(str, sizes)]
    flags += [] if cuda else ["--no-enable-chunked-prefill", "--block-size", str(CPU_BLOCK)]
    return [*(part for name, value in settings.items() for part in (f"--{name}", str(value))), *flags]
