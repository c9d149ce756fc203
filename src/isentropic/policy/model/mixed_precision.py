"""16-bit copies of fp32 weights, for the time of an optimizer step."""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from isentropic.distributed import world_size


@contextmanager
def low_precision_weights(module: nn.Module, dtype: torch.dtype) -> Generator[None]:
    """Inside, the module computes with copies of its weights in `dtype`; gradients accumulate in the fp32 weights.

    Backward passes belong inside too, as activation checkpointing recomputes layers; optimizer steps outside. FSDP2
    does the same by itself. A nested region changes nothing.
    """
    places = [
        (owner, name, weight)
        for owner in module.modules()
        for name, weight in owner._parameters.items()
        if weight is not None and weight.is_floating_point() and weight.dtype != dtype
    ]
    copies = {weight: low_precision_copy(weight, dtype) for weight in {weight: None for _, _, weight in places}}
    try:
        for owner, name, weight in places:  # a tied weight has several
            owner._parameters[name] = copies[weight]  # pyright: ignore[reportArgumentType]
        yield
    finally:
        for owner, name, weight in places:
            owner._parameters[name] = weight


def low_precision_copy(weight: nn.Parameter, dtype: torch.dtype) -> Tensor:
    """Of any shape; gradients of the copy are added to those of the weight, in the weight's type."""
    if world_size() > 1:  # DDP hooks gradients on the weights themselves
        return weight.to(dtype)
    copy = nn.Parameter(weight.detach().to(dtype), weight.requires_grad)

    def accumulate_gradient(copy: Tensor) -> None:
        assert copy.grad is not None
        if weight.grad is None:
            weight.grad = copy.grad.to(weight.dtype)
        else:
            weight.grad.add_(copy.grad)
        copy.grad = None

    if weight.requires_grad:
        copy.register_post_accumulate_grad_hook(accumulate_gradient)
    return copy
