"""Which GPUs this machine has for the taking, and how many a job wants."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import BadInput

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Resources:
    processes: int | None  # on one node; None is one for each GPU there is
    nodes: int
    gpu: bool


def resources_of(cfg: DictConfig) -> Resources:
    """What a job's trainer asks for. Raises BadInput for devices by name, which a sweep hands out itself."""
    accelerator = str(OmegaConf.select(cfg, "trainer.accelerator", default="cpu"))
    nodes = int(OmegaConf.select(cfg, "trainer.num_nodes", default=1))
    devices: Any = OmegaConf.select(cfg, "trainer.devices", default=1)
    if OmegaConf.is_list(devices) or "," in str(devices):
        raise BadInput(f"trainer.devices={devices} names devices, which a sweep hands out; give their number")
    whole = str(devices) in ("auto", "-1")
    return Resources(None if whole else int(devices), nodes, accelerator in ("gpu", "cuda", "auto"))


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """Names of this machine's GPUs as CUDA_VISIBLE_DEVICES takes them: numbers, UUIDs, or MIG instances."""
    if VISIBLE in environment:
        names = [name.strip() for name in environment[VISIBLE].split(",")]
        return names[: next((i for i, name in enumerate(names) if name in ("", "-1")), None)]  # CUDA stops there too
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return parse_nvidia_smi(listed.stdout)


def parse_nvidia_smi(text: str) -> list[str]:
    """From what nvidia-smi -L prints. Of a GPU that is divided, its instances: CUDA would see the first alone."""
    names: list[str] = []
    whole = ""
    for line in text.splitlines():
        if gpu := re.match(r"GPU (\d+):", line):
            whole = gpu[1]
            names.append(whole)
        elif instance := re.search(r"\(UUID: (MIG-[^)]+)\)", line):
            if names and names[-1] == whole:
                names.pop()
            names.append(instance[1])
    return names


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
