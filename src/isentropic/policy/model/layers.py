"""What a decoder layer keeps for its backward pass, and whether it runs as fused kernels."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from isentropic.policy.model.packed_attention import packed_attention

aten = torch.ops.aten
# What costs a matrix product to compute again. Bytes per token and layer in bf16, of hidden size H, key heads of K
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


FEW = 1024  # tokens; a line shorter than that is not worth the seconds that its own kernels take to be made


def arrange(layers: Iterable[nn.Module], checkpointing: str, compiled: bool) -> None:
    """In place, before sharding: hooks of FSDP stay outside, and the names of weights as they are.

    All layers share their compiled kernels, whatever the number of tokens, but for a few thresholds: what is best for
    8,192 tokens on a GPU is so from 4,096 on. Their first forward and backward pass takes a minute.
    """
    if compiled:  # with and without gradients, for policy and reference, between thresholds
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 32)
        torch._dynamo.config.specialize_float = True  # a norm's epsilon is no input; as one, all is traced twice
        if torch.cuda.is_available():
            make_kernels_at_once(len(os.sched_getaffinity(0)) // torch.cuda.device_count())
    for layer in layers:
        forward = layer.forward if checkpointing == "none" else frugal(layer.forward, checkpointing)
        layer.forward = fused(forward) if compiled else forward


def make_kernels_at_once(number: int) -> None:
    """vLLM leaves its whole process one thread to compile with, as its own workers may not start others.

    They are started now: those that a first forward found missing it would have to do without.
    """
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile

    config.compile_threads = max(config.compile_threads or 1, min(number, 32))  # 32 are torch's own limit
    AsyncCompile.use_process_pool()


def fused(forward: Callable[..., Any]) -> Callable[..., Any]:
    kernels = torch.compile(forward, dynamic=True)

    def chosen(hidden_states: Tensor, *arguments: Any, **settings: Any) -> Any:
        many = hidden_states.shape[:-1].numel() >= FEW
        return (kernels if many else forward)(hidden_states, *arguments, **settings)

    return chosen


def frugal(forward: Callable[..., Any], checkpointing: str) -> Callable[..., Any]:
    again: dict[str, Any] = {"context_fn": sparing} if checkpointing == "selective" else {}

    def checkpointed(*arguments: Any, **settings: Any) -> Any:
        # nothing in a layer is random
        return checkpoint(forward, *arguments, use_reentrant=False, preserve_rng_state=False, **again, **settings)

    return checkpointed


def sparing() -> Any:
    return create_selective_checkpoint_contexts(keep_costly)


def keep_costly(context: Any, operator: Any, *arguments: Any, **settings: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operator in COSTLY else CheckpointPolicy.PREFER_RECOMPUTE
