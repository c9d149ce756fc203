"""A setting that a page names in passing, as `policy.optimization.lr`, has words that configs or fields still have."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "src" / "isentropic" / "configs"
PAGES = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page.name != "glossary.md")]
GROUPS = "|".join(
    [
        "algorithm",
        "benchmark",
        "callbacks",
        "card",
        "evaluation",
        "graders",
        "hydra",
        "lengths",
        "paths",
        "policy",
        "reward",
        "rollout",
        "sampler",
        "task",
        "trainer",
    ]
)
KEY = re.compile(rf"(?<![\w./-])((?:{GROUPS})(?:\.[a-z_]+)+)(?=[=`,\s\]'\"]|$)")
OTHERS = {"trainer.accumulate_grad_batches", "benchmark.models.mine"}  # said to be refused; an example's own


def words_of(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {word for key in node for word in re.split(r"[./@]", str(key))}
        return own.union(*map(words_of, node.values()))
    return set[str]().union(*map(words_of, node)) if isinstance(node, list) else set()


@cache
def known() -> set[str]:
    """Keys, options and groups of configs/, fields of classes and names of arguments."""
    words = set[str]()
    for file in CONFIGS.rglob("*.yaml"):
        inside = file.relative_to(CONFIGS).with_suffix("")
        words |= {*inside.parts, *words_of(yaml.safe_load(file.read_text()))}
    for file in (ROOT / "src" / "isentropic").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                words.add(node.target.id)
            elif isinstance(node, ast.arg):
                words.add(node.arg)
    return words


def stale(text: str) -> list[str]:
    named = {key for code in re.findall(r"`([^`\n]+)`", text) for key in KEY.findall(code)}
    files = {key for key in named if key.endswith((".json", ".csv", ".md", ".html"))}
    return sorted(key for key in named - files - OTHERS if not set(key.split(".")) <= known())


def test_settings_that_pages_name_are_there():
    assert {page.name: found for page in PAGES if (found := stale(page.read_text()))} == {}


def test_a_setting_that_was_renamed_is_found_out():
    assert stale("`policy.reads_twice=true`, `policy.optimization.lr` and `card.json`") == ["policy.reads_twice"]
