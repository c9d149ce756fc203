"""Recipes as they stand in configs/algorithm/: what their headers say, and what each changes of its base."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import leaves
from isentropic.config.compose import CONFIGS, compose, loader_of

SEAMS = ("control", "advantage", "credit", "ratio", "clipping", "penalty", "aggregation")
HEADER = re.compile(r"(?P<name>.+?) \((?P<source>[^()]*arXiv:[\d.v]+)\)[:,]? ?(?P<what>.*)")
GRADE = re.compile(r"^# Formula: ([ABC?])(?:, (.*))?$", re.M)


@dataclass(frozen=True)
class Recipe:
    """What stands in configs/algorithm/<name>.yaml. `new` are files, `settings` those that its base has otherwise."""

    name: str
    title: str
    source: str  # an arXiv number, or what stands in its place
    what: str
    grade: str
    why: str
    base: str
    new: list[str]
    settings: list[str]
    own: set[str]  # parts that its base has otherwise

    @property
    def link(self) -> str:
        return re.sub(r"arXiv:([\d.v]+)", r"[\1](https://arxiv.org/abs/\1)", self.source)


def recipes(folder: Path = CONFIGS / "algorithm") -> Iterator[Recipe]:
    """Raises ValueError for a recipe whose header cannot be read."""
    for path in sorted(folder.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        opening = " ".join(line.removeprefix("#").strip() for line in takewhile(is_opening, text.splitlines()))
        header, grade = HEADER.match(opening), GRADE.search(text)
        if not header:
            raise ValueError(f"{path.name} must open with `# NAME (arXiv:0000.00000): what it does`")
        listed = OmegaConf.to_container(OmegaConf.create(text)).get("defaults", [])  # pyright: ignore
        base = next((entry for entry in listed if isinstance(entry, str) and entry != "_self_"), "")
        mine, theirs = values(path.stem), values(base) if base else {}
        changed = {key: value for key, value in mine.items() if theirs.get(key) != value}
        swapped = tuple(key.removesuffix("_target_") for key in changed if key.endswith("._target_"))
        others = {key: value for key, value in changed.items() if not key.startswith(swapped)}
        yield Recipe(
            name=path.stem,
            title=header["name"],
            source=header["source"],
            what=header["what"],
            grade=grade[1] if grade else "",
            why=(grade[2] or "") if grade else "",
            base=base,
            new=[file(str(mine[key])) for key in changed if key.endswith("._target_")],
            settings=[f"{k}={v:g}" if isinstance(v, float) else f"{k}={str(v).lower()}" for k, v in others.items()],
            own={part_of(key) for key in changed},
        )


def is_opening(line: str) -> bool:
    return line.startswith("#") and not GRADE.match(line)


@cache
def values(name: str) -> dict[str, Any]:
    """Settings by dotted key, of the seven parts."""
    found = dict(leaves(OmegaConf.to_container(configured(name).algorithm, resolve=True)))
    return {key: value for key, value in found.items() if key.split(".")[0] in SEAMS and "." in key}


@cache
def configured(name: str, *overrides: str) -> DictConfig:
    """The recipe alone, under `algorithm`."""
    return compose(loader_of(CONFIGS), "inspect", [f"algorithm={name}", "rollouts=none", *overrides])


def file(target: str) -> str:
    """Of a class, from the algorithm's folder on."""
    return "/".join(target.split(".")[2:-1]) + ".py"


def part_of(key: str) -> str:
    seam, name, *_ = key.split(".")
    return f"{seam} {name}" if seam in ("credit", "penalty") else seam
