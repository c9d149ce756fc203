"""What a run needs of where it is started, tried once, each within its own limit. An empty list is success."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

import torch
import torch.distributed as dist

from isentropic.launching.meeting import Meeting
from isentropic.launching.place import LAUNCHED


def files(meeting: Meeting, folder: Path, limit: float) -> list[str]:
    """Does every host see what rank 0 writes where runs are logged?"""
    place = meeting.place
    if place.rank == 0:
        token = folder / f".preflight-{uuid4().hex}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            token.touch()
        except OSError as error:
            meeting.tell("token", None)
            return [f"{place}: paths.logs={folder} cannot be written to ({error.strerror})"]
        meeting.tell("token", token.name)
        meeting.bring("seen", True)
        meeting.collect("seen", limit + 5)
        token.unlink()
        return []
    name = meeting.hear("token", limit)
    found = name is None or appears(folder / name, limit)
    meeting.bring("seen", found)
    if found:
        return []
    return [
        f"{place} does not see what rank 0 writes into paths.logs={folder}; it must be on a file system that all nodes "
        "share"
    ]


def appears(path: Path, limit: float) -> bool:
    """Listing the folder makes network file systems look again."""
    end = monotonic() + limit
    while monotonic() < end:
        if path.parent.is_dir() and path.name in os.listdir(path.parent):
            return True
        sleep(0.2)
    return False


def all_reduce(meeting: Meeting, cuda: bool, limit: float) -> list[str]:
    """One sum over all ranks, by NCCL between GPUs and gloo between CPUs."""
    place, backend = meeting.place, "nccl" if cuda else "gloo"
    said: list[str] = []

    def run() -> None:
        try:
            device = torch.device("cuda", place.local) if cuda else torch.device("cpu")
            # a group that gives up by itself would take the process with it
            later = timedelta(seconds=limit + 60)
            dist.init_process_group(
                backend, timeout=later, world_size=place.size, rank=place.rank, store=meeting.part("group")
            )
            value = torch.full((1024,), place.rank + 1.0, device=device)
            dist.all_reduce(value)
            expected = place.size * (place.size + 1) / 2
            if not bool((value == expected).all()):
                said.append(f"{place}: the {backend} all-reduce gave {float(value[0])} where {expected} is right")
            dist.destroy_process_group()
        except (RuntimeError, ValueError) as error:
            said.append(f"{place}: the {backend} all-reduce failed: {' '.join(str(error).split())[:300]}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        variable = "NCCL_SOCKET_IFNAME and NCCL_DEBUG=INFO" if cuda else "GLOO_SOCKET_IFNAME"
        return [
            f"{place}: the {backend} all-reduce did not end within {limit:g} s; another rank has failed, or ranks "
            f"cannot reach each other ({variable} may tell)"
        ]
    return said


def sampler(meeting: Meeting, command: Sequence[str], cuda: bool, limit: float) -> list[str]:
    """An engine alone, on this rank's GPU, in a process that can be killed: it may hang or take all down with it."""
    place = meeting.place
    foreign = (*LAUNCHED, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "TORCHELASTIC_USE_AGENT_STORE")
    environment = {name: value for name, value in os.environ.items() if name not in foreign}
    if cuda:
        seen = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
        environment["CUDA_VISIBLE_DEVICES"] = seen.split(",")[place.local]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        start_new_session=True,
    )  # fmt: skip
    try:
        _, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return [f"{place}: the sampler did not start and answer within {limit:g} s (limits.sampler)"]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode == 0:
        return []
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    last = lines[-1] if lines else f"its process ended with {process.returncode} and said nothing"
    return [f"{place}: the sampler did not start: {last.removeprefix('error: ')}"]


def start_further(size: int, port: int, command: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    """Ranks 1 and on of one machine, where no launcher has started them; this process becomes rank 0."""
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= shared | {"RANK": "0", "LOCAL_RANK": "0"}
    ranks = ({"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(1, size))
    return [subprocess.Popen(command, env=os.environ | own, stdin=subprocess.DEVNULL) for own in ranks]


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "isentropic", "preflight", *arguments]
