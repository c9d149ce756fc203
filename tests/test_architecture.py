"""The rules of CONTRIBUTING.md that a machine can check. Each walks what exists and names what breaks it."""

import ast
import importlib
import inspect
import re
import subprocess
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
SOURCE, CONFIGS, TESTS = ROOT / "src" / "isentropic", ROOT / "configs", ROOT / "tests"
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = [path for path in FILES if path.name != "__init__.py"]
FOLDERS = [path.parent for path in FILES if path.name == "__init__.py"]
PARTS = [
    path
    for path in MODULES
    if path.parent.relative_to(SOURCE).parts[:1] == ("algorithm",) and path.parent.name != "algorithm"
]

# What Hydra reads for itself; everything else in a config is a setting.
HYDRA = {"_target_", "_convert_", "_recursive_", "_partial_", "_args_", "defaults", "hydra"}

# Longer on purpose, with the reason. A file or function beside these that outgrows its limit wants cutting in two.
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}

# Tests of several files together, with what they are of.
ACROSS = {
    "algorithm/test_recipes.py": "each recipe, composed from its parts",
    "algorithm/test_composition.py": "parts with each other",
    "algorithm/test_degenerate.py": "input from which nothing can be learnt",
    "algorithm/test_invariances.py": "what a cut, an order or padding must not change",
    "algorithm/test_ranks.py": "what a split over ranks must not change",
    "algorithm/peers/test_kl.py": "estimates of the KL by verl, and ours",
    "algorithm/peers/test_liger.py": "liger's fused loss, and ours",
    "algorithm/peers/test_loading.py": "what loading the peers leaves behind",
    "algorithm/peers/test_logprobs.py": "log-probs of TRL and verl, and ours",
    "algorithm/peers/test_trl.py": "the losses of TRL's trainer, and ours",
    "algorithm/peers/test_verl_advantages.py": "verl's advantages, and ours",
    "algorithm/peers/test_verl_corrections.py": "verl's corrections for the sampler, and ours",
    "algorithm/peers/test_verl_losses.py": "verl's losses, and ours",
    "algorithm/test_markers.py": "each part, by what it says of itself",
    "algorithm/config/test_recipes.py": "each recipe, composed from its parts",
    "policy/model/test_fused_logprobs_gpu.py": "the head on a card",
    "rollout/sampling/test_ranks.py": "samplers that remember, on two ranks",
    "slurm/test_slurm.py": "sweeps, requeues and the preflight on a real SLURM",
    "task/test_long_texts.py": "texts of any length, through whatever reads answers",
    "assets/test_base_model.py": "the base model that ships with the package",
    "docs/test_commands.py": "every command of the pages",
    "docs/test_equality_page.py": "the tables of what counts as equal",
    "docs/test_error_sentences.py": "every sentence that they quote",
    "docs/test_keys.py": "the settings that they name in passing",
    "docs/test_links.py": "every link",
    "docs/test_results.py": "the scripts behind the results",
    "docs/test_sections.py": "the order of the site",
    "docs/test_site.py": "the site, in a browser",
}

# The process group is the concern of distributed.py; an engine that shares it knows it too, and who tries it first.
COLLECTIVES = {
    "distributed.py",
    "sampler/vllm/colocated.py",
    "sampler/vllm/engine_args.py",
    "sampler/vllm/isolation.py",
    "sampler/vllm/devices.py",
    "sampler/vllm/server.py",
    "sampler/vllm/tensor_parallel.py",
    "launching/preflight.py",
}
SHARDING = re.compile(r"torch\.distributed\.(fsdp|tensor|device_mesh|checkpoint)\b")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def targets(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping of a config that names a class of ours, at any depth."""
    if isinstance(node, dict):
        if str(node.get("_target_", "")).startswith("isentropic."):
            yield node
        for value in node.values():
            yield from targets(value)
    if isinstance(node, list):
        for value in node:
            yield from targets(value)


def groups(node: dict[str, Any]) -> set[str]:
    """The keys that a config's defaults list fills."""
    listed = [key for entry in node.get("defaults", []) if isinstance(entry, dict) for key in entry]
    return {key.removeprefix("override ").split("@")[-1].rstrip(":").split("/")[-1] for key in listed}


def located(target: str) -> Any:
    module, _, attribute = target.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def configs() -> list[Path]:
    return sorted(CONFIGS.rglob("*.yaml"))


def test_the_keys_of_a_config_are_the_fields_of_its_class():
    wrong = []
    for path in configs():
        for node in targets(yaml.safe_load(path.read_text())):
            made = located(node["_target_"])
            keys = {str(key) for key in node} - HYDRA | groups(node)
            parameters = set(inspect.signature(made).parameters)
            wrong += [f"{name(path)}: {node['_target_']} has no {key}" for key in keys - parameters]
            if is_dataclass(made):
                wrong += [f"{name(path)}: {node['_target_']} also needs {key}" for key in parameters - keys]
    assert wrong == []


def test_a_config_lies_where_its_class_lies():
    wrong = []
    for path in configs():
        folder = path.parent.relative_to(CONFIGS)
        if folder == Path(".") or not (SOURCE / folder / "__init__.py").exists():
            continue  # a group without a folder in the source: it configs what others wrote, or composes
        node = yaml.safe_load(path.read_text()) or {}
        part = node if "_target_" in node else node.get(path.stem) or {}  # those of lists stand under their name
        target = part.get("_target_", "")
        if target.startswith("isentropic.") and not target.startswith(".".join(("isentropic", *folder.parts)) + "."):
            wrong.append(f"{target} does not lie in {folder}")
    assert wrong == []


def test_every_part_of_the_algorithm_can_be_chosen_by_a_config():
    reachable = {
        node["_target_"].rpartition(".")[0]
        for path in CONFIGS.rglob("*.yaml")
        for node in targets(yaml.safe_load(path.read_text()))
    }
    assert [dotted(path) for path in PARTS if dotted(path) not in reachable] == []


def test_settings_have_no_defaults_in_code():
    wrong = []
    for path in PARTS:
        module = importlib.import_module(dotted(path))
        for made in vars(module).values():
            if inspect.isclass(made) and made.__module__ == module.__name__ and is_dataclass(made):
                given = [f for f in fields(made) if f.default is not MISSING or f.default_factory is not MISSING]
                wrong += [f"{made.__name__}.{f.name} repeats what its YAML says" for f in given if f.init]
    assert wrong == []


def test_tests_mirror_the_source():
    wrong = []
    for path in sorted(TESTS.rglob("test_*.py")):
        inside = path.relative_to(TESTS)
        if path.parent != TESTS and inside.as_posix() not in ACROSS:
            place = SOURCE / inside.parent
            there = {one.stem for one in place.iterdir()} | {place.name} if place.is_dir() else set[str]()
            if path.stem.removeprefix("test_") not in there:
                wrong.append(f"nothing in {name(place)} is called as {inside}")
    assert wrong == []


def test_every_folder_is_one_question_and_exports_nothing_twice():
    wrong = []
    for folder in FOLDERS:
        path = folder / "__init__.py"
        tree = ast.parse(path.read_text())
        first_line = (ast.get_docstring(tree) or "").partition("\n")[0]
        if folder != SOURCE and not re.match(r"[^.?]+\?( |$)", first_line):
            wrong.append(f"{name(path)} opens with {first_line!r}, not with its question")
        inner = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        wrong += [f"{name(path)} re-exports {one}" for one in inner if str(one).startswith(dotted(folder) + ".")]
    assert wrong == []


def test_files_and_functions_stay_short():
    wrong = []
    for path in FILES:
        text, inside = path.read_text(), path.relative_to(SOURCE).as_posix()
        if inside not in LONG_FILES and text.count("\n") > 300:
            wrong.append(f"{inside} has {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and f"{inside}:{node.name}" not in LONG_FUNCTIONS:
                length = (node.end_lineno or 0) - node.lineno
                wrong += [f"{inside}:{node.name} has {length} lines"] if length >= 50 else []
    assert wrong == []


def test_only_distributed_knows_that_ranks_exist():
    wrong = []
    for path in FILES:
        inside = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            imported = [f"{node.module}.{a.name}" for a in node.names] if isinstance(node, ast.ImportFrom) else []
            imported += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            imported += [ast.unparse(node)] if isinstance(node, ast.Attribute) else []
            ranks = [one for one in imported if re.match(r"torch\.distributed\b", one) and not SHARDING.match(one)]
            wrong += [f"{inside}:{node.lineno} uses {ranks}"] if ranks and inside not in COLLECTIVES else []
    assert wrong == []


def test_imports_follow_the_contracts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from importlinter.cli import lint_imports

    monkeypatch.chdir(ROOT)
    broken = lint_imports(no_cache=True)
    assert not broken, capsys.readouterr().out


def written() -> list[Path]:
    """The files that a clone would have; all but caches where git is not at hand."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    paths = (
        [ROOT / line for line in listed.stdout.splitlines()]
        if listed.returncode == 0
        else [*FILES, *CONFIGS.rglob("*.yaml")]
    )
    kinds = {".py", ".yaml", ".yml", ".toml", ".md", ".in", ".txt", ".lock", ""}
    return [path for path in paths if path.is_file() and path.suffix in kinds]


def test_no_file_knows_the_machine_it_was_written_on():
    elsewhere = re.compile(r"(?<![\w./~:$}-])/(work|opt|root|home|Users|mnt|data)/\w+")
    found = [
        f"{name(path)}: {m.group()}" for path in written() for m in elsewhere.finditer(path.read_text(errors="ignore"))
    ]
    assert found == []


def test_annotations_are_evaluated():
    # Shapes are checked at run time, which needs annotations that are objects.
    postponed = re.compile(r"^from __future__ import annotations", re.M)
    assert [name(path) for path in written() if path.suffix == ".py" and postponed.search(path.read_text())] == []
