"""Can a run start here? Trials of what it needs, on all of its ranks: each within its own limit.

Ranks exchange what they find through a TCPStore. A process group's monitored_barrier or all_gather_object would not do:
where a rank is missing, or names a network interface that is not there, gloo's group does not form, and its error holds
no rank but a key of its store; with TORCH_GLOO_LAZY_INIT, others blame rank 0.
"""

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any, cast
from uuid import uuid4

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import TCPStore  # pyright: ignore[reportPrivateImportUsage]

from isentropic.launching.devices import VISIBLE
from isentropic.launching.node_info import NodeInfo, Rank, problems_of, spans, table

GRACE = 10.0  # seconds that ranks may be apart when each keeps to its own limit
# What srun and torchrun tell a process of its rank; without these it is a run of its own
RANK_VARIABLES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID",
    "SLURM_LOCALID", "SLURM_NTASKS", "TORCHELASTIC_USE_AGENT_STORE",
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """In seconds."""

    meet: float
    files: float
    all_reduce: float
    sampler: float


def preflight(rank: Rank, info: NodeInfo, logs: Path, start_sampler: Sequence[str] | None, limits: Limits) -> int:
    """The exit code, the same on all ranks that met. Raises ValueError where they cannot meet."""
    exchange, cuda = Exchange(rank, limits.meet), info.gpu is not None
    together, problems = meet(exchange, info, limits.meet)
    trials: list[tuple[str, float, Callable[[], list[str]]]] = [
        ("files", limits.files, lambda: shared_files(exchange, logs, limits.files)),
        ("all-reduce", limits.all_reduce, lambda: all_reduce(exchange, cuda, limits.all_reduce)),
        ("sampler", limits.sampler, lambda: sampler(rank, start_sampler, cuda, limits.sampler)),
    ]
    for name, limit, trial in trials if together else []:
        problems += attempt(exchange, name, limit, trial)
    return conclude(exchange, problems)


class Exchange:
    """Values that JSON can hold, from each rank to all, through a store that rank 0 keeps."""

    def __init__(self, rank: Rank, limit: float) -> None:
        """Raises ValueError where rank 0 cannot be reached within `limit` seconds, or its port is taken."""
        self.rank = rank
        where = f"MASTER_ADDR={rank.address}, MASTER_PORT={rank.port}"
        # torchrun's own process keeps the store at that port
        serves = rank.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        try:
            socket.getaddrinfo(rank.address, None)
            store = TCPStore(rank.address, rank.port, None, serves, timedelta(seconds=limit), wait_for_workers=False)
        except socket.gaierror as error:
            raise ValueError(
                f"{rank} cannot resolve MASTER_ADDR={rank.address}; set MASTER_ADDR to an address of rank 0's node "
                "that all nodes know"
            ) from error
        except RuntimeError as error:
            if serves:
                reason = str(error).splitlines()[0]
                raise ValueError(
                    f"{rank} cannot wait for the others at {where} ({reason}); set another MASTER_PORT"
                ) from error
            raise ValueError(
                f"{rank} cannot reach rank 0 at {where} within {limit:g} s: rank 0 has not started or has ended, the "
                "address is not that of its node, or a firewall closes the port"
            ) from error
        self.store = PrefixStore("preflight", store)

    def send(self, topic: str, value: Any) -> None:
        self.store.set(f"{topic}/{self.rank.rank}", json.dumps(value))

    def gather(self, topic: str, value: Any, limit: float) -> dict[int, Any]:
        """By rank, without those that did not come within the limit."""
        self.send(topic, value)
        end = monotonic() + limit
        found = {rank: self._wait(f"{topic}/{rank}", end - monotonic()) for rank in range(self.rank.size)}
        return {rank: json.loads(text) for rank, text in found.items() if text is not None}

    def broadcast(self, topic: str, value: Any, limit: float) -> Any:
        """Rank 0's value. Raises ValueError where it does not come within the limit."""
        if self.rank.rank == 0:
            self.store.set(topic, json.dumps(value))
        text = self._wait(topic, limit)
        if text is None:
            raise ValueError(f"{self.rank} heard nothing from rank 0 within {limit:g} s ({topic})")
        return json.loads(text)

    def _wait(self, key: str, limit: float) -> bytes | None:
        try:
            self.store.wait([key], timedelta(seconds=max(limit, 0.01)))
            return self.store.get(key)
        except RuntimeError:  # late, or rank 0 is gone
            return None


def meet(exchange: Exchange, info: NodeInfo, limit: float) -> tuple[bool, list[str]]:
    """Whether trials make sense, and what is wrong with those who came; rank 0 prints who did."""
    infos = [NodeInfo(**found) for found in exchange.gather("info", asdict(info), limit).values()]
    absent = sorted(set(range(exchange.rank.size)) - {info.rank for info in infos})
    if exchange.rank.rank == 0:
        print(table(infos), flush=True)
    problems = problems_of(infos)
    if absent:
        text = f"rank {spans(absent)} of {exchange.rank.size} did not come within {limit:g} s (limits.meet)"
        problems.insert(0, text)
    return exchange.broadcast("together", not absent and all(info.device for info in infos), 2 * limit), problems


def attempt(exchange: Exchange, name: str, limit: float, trial: Callable[[], list[str]]) -> list[str]:
    """What went wrong on any rank; rank 0 prints how it went."""
    begin = monotonic()
    own = trial()
    results = exchange.gather(name, (own, monotonic() - begin), limit + GRACE)
    problems = [text for found, _ in results.values() for text in found]
    if silent := sorted(set(range(exchange.rank.size)) - set(results)):
        problems.append(f"rank {spans(silent)} did not end the {name} trial within {limit:g} s")
    if exchange.rank.rank == 0:
        seconds = max(took for _, took in results.values())
        how = "failed" if problems else "works"
        print(f"{name}: {how} on {exchange.rank.size} ranks, {seconds:.1f} s", flush=True)
    return problems


def conclude(exchange: Exchange, problems: list[str]) -> int:
    """The exit code; rank 0 says what is wrong and leaves last, as it keeps the store."""
    if exchange.rank.rank == 0:
        print("\n".join(f"wrong: {text}" for text in problems) or "nothing is wrong", flush=True)
    code = exchange.broadcast("code", int(bool(problems)), GRACE)
    if exchange.rank.rank == 0:
        exchange.gather("leaving", True, GRACE)
    else:
        exchange.send("leaving", True)
    return code


def shared_files(exchange: Exchange, folder: Path, limit: float) -> list[str]:
    """Does every host see what rank 0 writes where runs are logged?"""
    token, error = folder / f".preflight-{uuid4().hex}", ""
    if exchange.rank.rank == 0:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            token.touch()
        except OSError as failure:
            error = f"{exchange.rank}: paths.logs={folder} cannot be written to ({failure.strerror})"
    name = exchange.broadcast("token", None if error else token.name, limit)
    if name is None:
        return [error] if error else []
    seen, end = False, monotonic() + limit
    while not (seen := folder.is_dir() and name in os.listdir(folder)) and monotonic() < end:
        sleep(0.2)  # listing makes network file systems look again
    exchange.gather("seen", seen, limit + GRACE)
    token.unlink(missing_ok=True)
    return [] if seen else [
        f"{exchange.rank} does not see what rank 0 writes into paths.logs={folder}; it must be on a file system that "
        "all nodes share"
    ]  # fmt: skip


def all_reduce(exchange: Exchange, cuda: bool, limit: float) -> list[str]:
    """By NCCL between GPUs and gloo between CPUs, in a thread, as a hung collective cannot be called back."""
    rank, backend, said = exchange.rank, "nccl" if cuda else "gloo", list[str]()

    def run() -> None:
        try:
            # a connection of its own: while one waits for a key, nobody else can use it
            store: Any = PrefixStore("group", cast(Any, exchange.store).clone())
            later = timedelta(seconds=limit + 60)  # a group that gave up by itself would take the process with it
            dist.init_process_group(backend, timeout=later, world_size=rank.size, rank=rank.rank, store=store)
            value = torch.full((1024,), rank.rank + 1.0, device=torch.device("cuda", rank.local) if cuda else "cpu")
            dist.all_reduce(value)
            expected = rank.size * (rank.size + 1) / 2
            if not bool((value == expected).all()):
                said.append(f"{rank}: the {backend} all-reduce gave {float(value[0])} where {expected} is right")
            dist.destroy_process_group()
        except (RuntimeError, ValueError) as error:
            said.append(f"{rank}: the {backend} all-reduce failed: {' '.join(str(error).split())[:300]}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit)
    if not thread.is_alive():
        return said
    variable = "NCCL_SOCKET_IFNAME and NCCL_DEBUG=INFO" if cuda else "GLOO_SOCKET_IFNAME"
    return [
        f"{rank}: the {backend} all-reduce did not end within {limit:g} s; another rank has failed, or ranks cannot "
        f"reach each other ({variable} may tell)"
    ]


def sampler(rank: Rank, command: Sequence[str] | None, cuda: bool, limit: float) -> list[str]:
    """An engine on this rank's GPU alone, in a process that can be killed: it may hang or take all down with it."""
    if command is None:  # another rank starts the one that all ask
        return []
    environment = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
    if cuda:
        gpus = os.environ.get(VISIBLE) or ",".join(map(str, range(torch.cuda.device_count())))
        environment[VISIBLE] = gpus.split(",")[rank.local]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        start_new_session=True,
    )  # fmt: skip
    try:
        _, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return [f"{rank}: the sampler did not start and answer within {limit:g} s (limits.sampler)"]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode == 0:
        return []
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    last = lines[-1] if lines else f"its process ended with {process.returncode} and said nothing"
    return [f"{rank}: the sampler did not start: {last.removeprefix('error: ')}"]
