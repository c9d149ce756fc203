"""The machine that a run is on, as far as its numbers depend on it. Only the standard library.

One seed gives other digits where vectors are wider, threads more, or a library newer: docs/statistics.md.
"""

import os
import platform
import re
import subprocess
from contextlib import suppress
from pathlib import Path

VECTORS = re.compile(r"avx\w*|amx\w*|fma|sve\w*|asimd")  # instructions that decide in which order sums are made


def machine() -> dict[str, str | int | None]:
    facts = _processor()
    return {
        "processor": facts.get("model name") or platform.processor() or platform.machine(),
        "vectors": " ".join(sorted(filter(VECTORS.fullmatch, facts.get("flags", facts.get("Features", "")).split()))),
        "capability": os.environ.get("ATEN_CPU_CAPABILITY"),  # to which torch was held; null: what the processor has
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),  # null: as many as cores
        "gpus": ", ".join(_gpus()) or None,
        "python": platform.python_version(),
        "commit": commit(Path(__file__).parent),
    }


def commit(folder: Path) -> str | None:
    """Of the code itself, with -dirty where files have changed since; None where it is no checkout, or without git."""
    with suppress(OSError, subprocess.SubprocessError):
        inside = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "--error-unmatch", __file__], capture_output=True, timeout=10
        )
        if inside.returncode == 0:  # else it is installed into a checkout of something else
            asked = ["describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"]
            found = subprocess.run(["git", "-C", str(folder), *asked], capture_output=True, text=True, timeout=10)
            return found.stdout.strip() or None
    return None


def _processor() -> dict[str, str]:
    """Of the first core; empty where there is no /proc."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0].splitlines()
        return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {}


def _gpus() -> list[str]:
    found: list[str] = []
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        with suppress(OSError):
            found += re.findall(r"^Model:\s*(.+)$", file.read_text(errors="replace"), re.M)
    return found
