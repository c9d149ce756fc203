"""What a decoder layer keeps for its backward pass, and whether it runs compiled."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from isentropic.policy.model.packed_attention import packed_attention

aten = torch.ops.aten
# What costs a matrix product to recompute. Bytes per token and layer in bf16, of hidden size H, key heads of K
# numbers together and inner size I: selective keeps 2 (5 H + 2 K + 2 I), full 2 H.
COSTLY = {
    aten.mm.default,
    aten.addmm.default,
    aten.bmm.default,
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
    packed_attention._opoverload,
}
CHECKPOINTING = "none", "selective", "full"


MIN_COMPILED_TOKENS = 1024  # tokens; compiling for fewer costs more seconds than it saves


def configure_layers(layers: Iterable[nn.Module], checkpointing: str, compiled: bool) -> None:
    """In place, before sharding: hooks of FSDP stay outside, and the names of weights as they are.

    All layers share their compiled kernels, whatever the number of tokens, but for a few thresholds: what is best for
    8,192 tokens on a GPU is so from 4,096 on. Their first forward and backward pass takes a minute.
    """
    if compiled:  # with and without gradients, for policy and reference, between thresholds
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 32)
        torch._dynamo.config.specialize_float = True  # a norm's epsilon is no input; as one, all is traced twice
        if torch.cuda.is_available():
            start_compile_workers(len(os.sched_getaffinity(0)) // torch.cuda.device_count())
    for layer in layers:
        forward = layer.forward if checkpointing == "none" else checkpointed(layer.forward, checkpointing)
        layer.forward = compiled_when_long(forward) if compiled else forward


def start_compile_workers(number: int) -> None:
    """vLLM limits its whole process to one compile thread, as its own workers may not start others.

    Workers are started now, as the first forward would go on without those that it finds missing.
    """
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile

    config.compile_threads = max(config.compile_threads or 1, min(number, 32))  # 32 are torch's own limit
    AsyncCompile.use_process_pool()


def compiled_when_long(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A layer's forward, compiled from MIN_COMPILED_TOKENS tokens on: kernels for fewer are not worth making."""
    kernels = torch.compile(forward, dynamic=True)

    def chosen(hidden_states: Tensor, *arguments: Any, **settings: Any) -> Any:
        many = hidden_states.shape[:-1].numel() >= MIN_COMPILED_TOKENS
        return (kernels if many else forward)(hidden_states, *arguments, **settings)

    return chosen


def checkpointed(forward: Callable[..., Any], checkpointing: str) -> Callable[..., Any]:
    """A layer's forward that keeps its input alone (full), or products and attention too (selective)."""
    again: dict[str, Any] = {"context_fn": selective_policy} if checkpointing == "selective" else {}

    def run(*arguments: Any, **settings: Any) -> Any:
        # nothing in a layer is random
        return checkpoint(forward, *arguments, use_reentrant=False, preserve_rng_state=False, **again, **settings)

    return run


def selective_policy() -> Any:
    """The contexts of torch's checkpoint in which keep_costly decides."""
    return create_selective_checkpoint_contexts(keep_costly)


def keep_costly(context: Any, operator: Any, *arguments: Any, **settings: Any) -> CheckpointPolicy:
    """Products and attention are kept, all else is computed again."""
    return CheckpointPolicy.MUST_SAVE if operator in COSTLY else CheckpointPolicy.PREFER_RECOMPUTE
