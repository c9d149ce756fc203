"""FSDP2: a model divided over ranks, and read back whole, a bucket at a time."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, Shard

BUCKET = 2**28  # bytes that are gathered at once: few collectives, little memory


def shard(model: nn.Module, layers: Iterable[nn.Module], mesh: DeviceMesh, compute: torch.dtype) -> None:
    """Each decoder layer, then what is left, in which a tied head and its embedding stay one parameter."""
    precision = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=precision)
    fully_shard(model, mesh=mesh, mp_policy=precision)
    register_fsdp_forward_method(model, "own_logits")


@contextmanager
def keep_gathered(model: FSDPModule, layers: Sequence[FSDPModule]) -> Generator[None]:
    """Inside, weights stay gathered after their first use; an optimizer step in here would not reach them."""
    try:
        set_reshard(model, layers, False)
        yield
    finally:
        set_reshard(model, layers, True)
        for module in (*layers, model):
            module.reshard()


def set_reshard(model: FSDPModule, layers: Sequence[FSDPModule], free: bool) -> None:
    """Whether layers give up gathered weights after their forward and backward pass; false keeps them on each rank."""
    model.set_reshard_after_backward(free)
    for layer in layers:  # what belongs to none stays whole between forward and backward in any case
        layer.set_reshard_after_forward(free, recurse=False)


def device_of(mesh: DeviceMesh) -> torch.device:
    """The device of this rank in the mesh: its current card, or the CPU."""
    cuda = mesh.device_type == "cuda"
    return torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device(mesh.device_type)


@torch.no_grad()
def gathered(tensors: Iterable[tuple[str, Tensor]], dtype: torch.dtype | None) -> Iterator[tuple[str, Tensor]]:
    """Whole tensors in `dtype`, in order; None leaves each its own. Collective where some are sharded.

    A shard is cast before it travels. Beside the shards there is never more than the largest tensor, or two buckets
    where that is more, and what the reader keeps.
    """
    bucket: list[tuple[str, DTensor]] = []
    size = 0
    for name, value in tensors:
        kind = dtype or value.dtype
        if not isinstance(value, DTensor):
            yield from flush(bucket)
            yield name, value.to(kind)
            bucket, size = [], 0
            continue
        bytes_ = value.numel() * kind.itemsize
        if bucket and (size + bytes_ > BUCKET or bucket[0][1].dtype != kind):
            yield from flush(bucket)
            bucket, size = [], 0
        bucket.append((name, as_type(value, kind)))
        size += bytes_
    yield from flush(bucket)


def as_type(value: DTensor, dtype: torch.dtype) -> DTensor:
    """The same shards in another type, without a copy where it is theirs."""
    return value if value.dtype == dtype else cast(DTensor, value.to(dtype))


def flush(bucket: list[tuple[str, DTensor]]) -> Iterator[tuple[str, Tensor]]:
    """One collective for all: each rank's rows of each tensor, padded to the same number, one after the other."""
    if not bucket:
        return
    first = bucket[0][1]
    mesh, ranks = first.device_mesh, first.device_mesh.size()
    rows = [-(-value.shape[0] // ranks) for _, value in bucket]
    sizes = [n * prod(value.shape[1:]) for n, (_, value) in zip(rows, bucket, strict=True)]
    sent = torch.zeros(sum(sizes), dtype=first.dtype, device=first.to_local().device)
    for place, (_, value) in zip(sent.split(sizes), bucket, strict=True):
        own = value.to_local().flatten()
        place[: len(own)].copy_(own)
    received = DTensor.from_local(sent, mesh, [Shard(0)], run_check=False).full_tensor().view(ranks, -1)
    for part, n, (name, value) in zip(received.split(sizes, 1), rows, bucket, strict=True):
        yield name, part.reshape(ranks * n, *value.shape[1:])[: value.shape[0]]
