"""Bytes that the policy's layers keep of a token, counted operation by operation."""

from isentropic.planning.architecture import Architecture
from isentropic.planning.workload import FP32, Workload


def kept(model: Architecture, work: Workload) -> float:
    """Of one layer, until the backward pass comes to it: its input, products and attention as well, or all."""
    size = work.size
    if work.checkpointing == "full":
        return size * model.hidden
    if work.checkpointing == "selective":
        products = 2 * model.queries + 2 * model.keys + 2 * model.hidden + 2 * model.intermediate
        return size * (model.hidden + products) + FP32 * model.heads
    return layer(model, work)


def layer(model: Architecture, work: Workload) -> float:
    """All that its backward pass needs, and so what goes through memory between its products.

    Fused, a norm keeps what it was given, and each product its input. Else each norm keeps its fp32 input and output
    too, attention the queries before their rotation, the MLP what its activation makes.
    """
    size, normed = work.size, model.queries + model.keys if model.family == "qwen3" else 0
    attention = size * (2 * model.queries + 2 * model.keys) + FP32 * model.heads
    if work.compiled:
        return size * (4 * model.hidden + 3 * model.intermediate + normed) + attention
    norms = 2 * (FP32 + 2 * size) * model.hidden + (FP32 + size) * normed
    return norms + size * (model.queries + 4 * model.intermediate) + attention


def backward_buffers(model: Architecture, work: Workload) -> float:
    """Of one layer while it is gone through backwards: what is computed again, and gradients."""
    gradients = work.size * (3 * model.intermediate + 2 * model.hidden)
    if work.checkpointing == "full":
        return layer(model, work) + gradients
    if work.checkpointing == "selective":
        return work.size * (2 * model.hidden + model.intermediate) + gradients
    return gradients
