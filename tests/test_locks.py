"""The lock files agree with pyproject.toml, and hold nothing that would break a CPU installation."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
CPU, TORCH, PEERS, DOCS, CUDA = (
    ROOT / "requirements" / f"{lock}.lock" for lock in ("cpu", "torch", "peers", "docs", "cuda")
)
BUILT_FOR_CUDA = {"torchvision", "torchaudio", "torchcodec"}


def blocks(lock: Path) -> list[str]:
    return [block for block in re.split(r"(?m)^(?=[a-z0-9])", lock.read_text()) if "==" in block]


def locked(lock: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for block in blocks(lock):
        requirement = Requirement(block.partition("\\")[0])
        found.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier).removeprefix("=="))
    return found


def test_every_locked_package_has_one_version_and_its_hashes():
    for lock in (CPU, TORCH, PEERS, DOCS, CUDA):
        for block in blocks(lock):
            assert re.match(r"[\w.-]+==[\w.+]+ ", block) and "--hash=sha256:" in block, block[:80]


def test_the_locks_satisfy_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    versions = locked(DOCS) | locked(CPU) | locked(TORCH) | locked(PEERS)
    optional = [line for name, lines in extras.items() if name != "cuda" for line in lines]
    for line in [*project["dependencies"], *optional]:
        requirement = Requirement(line)
        if requirement.name == project["name"]:  # an extra that holds others
            continue
        found = versions.get(canonicalize_name(requirement.name), set())
        assert found and all(one in requirement.specifier for one in found), (
            f"{line}: the locks have {found}; make lock"
        )


def test_the_lock_of_the_image_satisfies_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, versions = project["optional-dependencies"], locked(CUDA)
    for line in [
        *project["dependencies"],
        *(one for name in ("cuda", "lora", "report", "tune") for one in extras[name]),
    ]:
        requirement = Requirement(line)
        found = versions.get(canonicalize_name(requirement.name), set())
        assert found and all(one in requirement.specifier for one in found), f"{line}: cuda.lock has {found}; make lock"


def test_what_is_built_for_cuda_is_neither_locked_nor_installed():
    assert (locked(CPU) | locked(PEERS)).keys() & {*BUILT_FOR_CUDA, "torch"} == set()
    assert "triton" not in locked(CPU)
    assert not [name for name in locked(CPU) if name.startswith("nvidia-")]
    if importlib.metadata.version("torch").endswith("+cpu"):
        assert {canonicalize_name(one.name) for one in importlib.metadata.distributions()} & BUILT_FOR_CUDA == set()
