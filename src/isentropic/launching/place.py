"""Which of a run's processes is this one, and where do all meet? Imports neither torch nor lightning."""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

# What launchers tell a process; without these it is a run of its own.
LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
# Jobs of these names are shells to Lightning, in which nothing was started by srun.
SHELLS = ("bash", "interactive")


@dataclass(frozen=True)
class Place:
    rank: int
    size: int  # processes of the run
    local: int  # rank among those of this host
    host: str
    address: str  # of rank 0
    port: int
    launcher: str | None  # srun, torchrun, or None for a process started by hand

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.host}"


def place(environment: Mapping[str, str]) -> Place:
    """Raises ValueError where a launcher does not say where rank 0 is."""
    host = environment.get("SLURMD_NODENAME") or socket.gethostname()
    address = environment.get("MASTER_ADDR", "")
    if "RANK" in environment and "WORLD_SIZE" in environment:
        rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        if size > 1 and not (address and "MASTER_PORT" in environment):
            raise ValueError(
                f"RANK={rank} and WORLD_SIZE={size} are set without MASTER_ADDR and MASTER_PORT, which say where rank "
                "0 is; torchrun sets all of them"
            )
        port = int(environment.get("MASTER_PORT", 0))
        return Place(rank, size, int(environment.get("LOCAL_RANK", rank)), host, address, port, "torchrun")
    if "SLURM_STEP_ID" in environment and environment.get("SLURM_JOB_NAME") not in SHELLS:
        rank, size, local = (int(environment[f"SLURM_{name}"]) for name in ("PROCID", "NTASKS", "LOCALID"))
        port = int(environment.get("MASTER_PORT") or 15000 + int(environment["SLURM_JOB_ID"][-4:]))
        return Place(rank, size, local, host, address or first(environment["SLURM_NODELIST"]), port, "srun")
    return Place(0, 1, 0, host, "localhost", 0, None)


def first(nodes: str) -> str:
    """Of a list as SLURM writes it: gpu[07-09,12],login1 → gpu07."""
    name = re.match(r"[^,\[]*", nodes)
    assert name is not None
    number = re.match(r"\[(\d+)", nodes[name.end() :])
    return name[0] + (number[1] if number else "")


def barred(place: Place, environment: Mapping[str, str]) -> str | None:
    """Why this process would wait for the others in vain, or None."""
    declared = int(environment.get("SLURM_NTASKS", 1))
    if place.launcher is None and declared > 1 and environment.get("SLURM_JOB_NAME") not in SHELLS:
        return (
            f"SLURM gave this job {declared} tasks, and only one process was started, which would wait for the others; "
            "put srun before python, or take trainer/cluster=lightning on one machine"
        )
    try:
        socket.getaddrinfo(place.address, None)
    except OSError:
        return (
            f"{place} cannot resolve MASTER_ADDR={place.address}; set MASTER_ADDR to an address of rank 0's node that "
            "all nodes know"
        )
    return None


def missing_interfaces(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that name a network interface which this host does not have.

    NCCL takes prefixes, `=` before exact names and `^` before those to leave out; gloo takes exact names.
    """
    there = [name for _, name in socket.if_nameindex()]
    found: dict[str, str] = {}
    for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        value = environment.get(variable, "")
        exact = variable.startswith("GLOO") or value.startswith("=")
        names = [name for name in value.removeprefix("=").split(",") if name and not value.startswith("^")]
        fits = [one for one in there for name in names if (one == name if exact else one.startswith(name))]
        if names and not fits:
            found[variable] = f"{value} (there are {', '.join(there)})"
    return found
