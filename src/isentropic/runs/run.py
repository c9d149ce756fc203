"""Run folders, of any age and in any state, as what they were told to do and what they logged."""

import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from isentropic.runs.metrics import Series, parts, read
from isentropic.runs.parallel import spread
from isentropic.runs.settings import Scalar, flat, items

MARKS = {"status.json", "config_sources.txt", "metrics.csv"}  # any of them makes a folder a run's
INNER = {"checkpoints", ".hydra", ".git", "wandb", "tensorboard", "__pycache__", ".venv"}


@dataclass(frozen=True)
class Run:
    """One training run. `status`: done, failed, stopped, running, unfinished (it died), or unknown."""

    folder: Path
    label: str  # given by the user, or empty
    config: dict[str, Scalar]  # dotted key → value; empty where there is no config.yaml
    overrides: tuple[str, ...]
    status: str
    error: str  # first line, or empty
    metrics: dict[str, Series]
    broken: dict[str, int]  # metrics that turned NaN or infinite → at which rollout
    remarks: list[str]  # what was odd about its files, a sentence each

    @property
    def seed(self) -> Scalar:
        return self.config.get("seed")

    @cached_property
    def rollouts(self) -> int:
        """Learnt from so far."""
        return max((int(series.steps[-1]) for series in self.metrics.values()), default=0)

    @property
    def planned(self) -> int | None:
        steps = self.config.get("rollout.steps")
        return steps if isinstance(steps, int) and not isinstance(steps, bool) else None

    @cached_property
    def scores(self) -> list[str]:
        """Names of its evaluations, such as `eval/avg@8`, without their bounds."""
        return sorted(n for n in self.metrics if n.startswith("eval/") and not n.endswith(("_low", "_high")))

    def final(self, score: str) -> float | None:
        """At its last evaluation."""
        return self.metrics[score].last if score in self.metrics else None


def find(folders: Sequence[Path | str], label: str = "") -> list[Run]:
    """Every run in or under the folders, in the order of their paths, each once.

    Raises ValueError for a folder that is not there, and where there is no run in any.
    """
    found: dict[tuple[int, int], tuple[Path, set[str]]] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise ValueError(f"there is no folder {folder}; give that of a run or of a sweep")
        for path, names in run_folders(folder):
            found.setdefault(identity(path), (path, names))
    if not found:
        listed = ", ".join(map(str, folders)) or "no folder"
        raise ValueError(f"no run in {listed}; a run's folder holds metrics.csv (logger=csv) and config.yaml")
    return spread(partial(load, label=label), list(found.values()), chunk=250)


def identity(folder: Path) -> tuple[int, int]:
    """The same for one folder under several names."""
    facts = os.stat(folder)
    return facts.st_dev, facts.st_ino


def run_folders(folder: Path) -> Iterator[tuple[Path, set[str]]]:
    """With the names of their files; what lies inside a run's folder is its own."""
    for place, inner, files in os.walk(folder):
        names = set(files)
        if names & MARKS or ("config.yaml" in names and ".hydra" in inner):
            yield Path(place), names
            inner.clear()
        inner[:] = sorted(set(inner) - INNER)


def load(place: tuple[Path, set[str]], label: str) -> Run:
    """Of a run's folder and the names of its files."""
    folder, names = place
    log = read(parts(folder, names))
    remarks = list(log.remarks)
    if not {"metrics.csv"} & names:
        remarks.append("there is no metrics.csv")
    config = _config(folder, names, remarks)
    state = _state(folder, names, remarks)
    overrides = state.get("overrides") or _overrides(folder)
    run = Run(
        folder=folder,
        label=label,
        config=config,
        overrides=tuple(map(str, overrides)),
        status=_status(state),
        error=str(state.get("error") or ""),
        metrics=log.metrics,
        broken=log.broken,
        remarks=remarks,
    )
    return run if state else _judged(run)


def _config(folder: Path, names: set[str], remarks: list[str]) -> dict[str, Scalar]:
    if "config.yaml" not in names:
        remarks.append("there is no config.yaml, so its settings are unknown")
        return {}
    try:
        return flat((folder / "config.yaml").read_text(errors="replace"))
    except (OSError, ValueError) as error:
        remarks.append(f"config.yaml could not be read ({error}), so its settings are unknown")
        return {}


def _state(folder: Path, names: set[str], remarks: list[str]) -> dict[str, Any]:
    if "status.json" not in names:
        return {}
    try:
        state = json.loads((folder / "status.json").read_text())
        return state if isinstance(state, dict) else {}
    except (OSError, ValueError):
        remarks.append("status.json could not be read")
        return {}


def _overrides(folder: Path) -> list[str]:
    try:
        return items((folder / ".hydra" / "overrides.yaml").read_text())
    except (OSError, ValueError):
        return []


def _status(state: dict[str, Any]) -> str:
    status = str(state.get("status", "unknown"))
    if status == "running" and state.get("host") == socket.gethostname() and not _alive(state.get("pid")):
        return "unfinished"
    return status if status in {"done", "failed", "stopped", "running"} else "unknown"


def _alive(pid: Any) -> bool:
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, TypeError, ValueError):
        return False
    return True


def _judged(run: Run) -> Run:
    """Older runs left no status: those that learnt from all the rollouts they were to are done."""
    if run.planned is None:
        return run
    return replace(run, status="done" if run.rollouts >= run.planned else "unfinished")
