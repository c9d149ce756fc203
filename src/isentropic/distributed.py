"""What spans ranks: each of these is collective, and the identity on one rank."""

import os
import socket
from collections.abc import Generator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.distributed.rendezvous import Store, TCPStore  # pyright: ignore[reportPrivateImportUsage]

_ALONE = ContextVar("alone", default=False)


@contextmanager
def alone() -> Generator[None]:
    """Inside, this rank is the only one."""
    token = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(token)


def world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() and not _ALONE.get() else 1


def rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def keep_to_this_machine(environment: MutableMapping[str, str] = os.environ) -> None:
    """Where all that meets is on one machine: what listens does so where no other machine comes."""
    if "lo" in (name for _, name in socket.if_nameindex()):
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")


def meeting_place(address: str, port: int, limit: float = 1800.0) -> Store | None:
    """On rank 0 of ranks that meet on the loopback: the store they find each other by, answering nowhere else.

    torch's own answers, to anybody, on all of a machine's addresses; it takes the one that is there. To be kept until
    they have met, for `limit` seconds. None for another address, and where something listens already, as torchrun does.
    """
    if address not in ("127.0.0.1", "localhost"):
        return None
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError:
        return None
    return TCPStore(
        "127.0.0.1", port, None, True, timedelta(seconds=limit), False,
        multi_tenant=True, master_listen_fd=listener.detach(),
    )  # fmt: skip


def lost_a_rank(error: BaseException) -> bool:
    """Whether this is what a collective says when a rank of it has ended."""
    lost = "Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused"
    gloo = "gloo" in str(error) and any(text in str(error) for text in lost)
    return gloo or (isinstance(error, dist.DistError) if dist.is_available() else False)


def largest(count: int) -> int:
    """The largest of a number over all ranks."""
    return int(gather(torch.tensor([float(count)], device=_device())).max())


def average(values: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """The mean over ranks."""
    if world_size() > 1:
        values = values.to(_device()) / world_size()
        dist.all_reduce(values)  # pyright: ignore[reportUnknownMemberType]
    return values


def _device() -> torch.device:
    """Where the process group takes tensors from."""
    nccl = world_size() > 1 and dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")


def gather(values: Float[Tensor, " N"]) -> Float[Tensor, " M"]:
    """The values of all ranks, in rank order. Ranks may bring different numbers of them; all must call."""
    if world_size() == 1:
        return values
    count = torch.tensor([len(values)], device=values.device)
    counts = [torch.empty_like(count) for _ in range(world_size())]
    dist.all_gather(counts, count)  # pyright: ignore[reportUnknownMemberType]
    lengths = [int(n) for n in counts]
    if not max(lengths):
        return values
    padded = torch.nn.functional.pad(values, (0, max(lengths) - len(values)))
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded)  # pyright: ignore[reportUnknownMemberType]
    return torch.cat([part[:n] for part, n in zip(parts, lengths, strict=True)])


def gather_objects(value: Any) -> list[Any]:
    """A value of each rank, in rank order; all must call."""
    if world_size() == 1:
        return [value]
    values = [None] * world_size()
    dist.all_gather_object(values, value)  # pyright: ignore[reportUnknownMemberType]
    return values


def gather_pairs(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those of all ranks, in rank order; all must call."""
    flat = torch.tensor(pairs, dtype=torch.float64, device=_device()).flatten()
    return [(first, second) for first, second in gather(flat).cpu().view(-1, 2).tolist()]


def exchange(rows: Tensor, leaving: list[int], coming: list[int]) -> Tensor:
    """The first leaving[0] rows go to rank 0, and so on; coming[0] come first, from rank 0. All must call."""
    arrived = rows.new_empty(sum(coming), *rows.shape[1:])
    dist.all_to_all_single(arrived, rows.contiguous(), coming, leaving)  # pyright: ignore[reportUnknownMemberType]
    return arrived


def sum_over_ranks(values: Tensor) -> Tensor:
    """In place."""
    if world_size() > 1:
        dist.all_reduce(values)  # pyright: ignore[reportUnknownMemberType]
    return values


def max_over_ranks(values: Tensor) -> Tensor:
    """In place."""
    if world_size() > 1:
        dist.all_reduce(values, dist.ReduceOp.MAX)  # pyright: ignore[reportUnknownMemberType]
    return values
