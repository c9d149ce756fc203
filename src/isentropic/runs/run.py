"""Run folders, of any age and in any state, as what they were told to do and what they logged."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from isentropic.runs import files
from isentropic.runs.metrics import REPORTED, Series, metrics_files, read_metrics
from isentropic.runs.parallel import spread
from isentropic.runs.settings import Scalar, flat, items
from isentropic.runs.status import Status, alive, read_status

MARKS = {files.STATUS, files.CONFIG_SOURCES, files.METRICS}  # any of them makes a folder a run's
INNER = {files.CHECKPOINTS, files.HYDRA, ".git", "wandb", "tensorboard", "__pycache__", ".venv"}


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


def find(folders: Sequence[Path | str], label: str = "", more: Sequence[str] = ()) -> list[Run]:
    """Every run in or under the folders, in the order of their paths, each once; `more` are metrics to read besides.

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
    return spread(partial(load, label=label, more=more), list(found.values()), chunk=250)


def identity(folder: Path) -> tuple[int, int]:
    """The same for one folder under several names."""
    facts = os.stat(folder)
    return facts.st_dev, facts.st_ino


def run_folders(folder: Path) -> Iterator[tuple[Path, set[str]]]:
    """With the names of their files; what lies inside a run's folder is its own."""
    for place, inner, inside in os.walk(folder):
        names = set(inside)
        if names & MARKS or (files.CONFIG in names and files.HYDRA in inner):
            yield Path(place), names
            inner.clear()
        inner[:] = sorted(set(inner) - INNER)


def load(place: tuple[Path, set[str]], label: str, more: Sequence[str] = ()) -> Run:
    """Of a run's folder and the names of its files."""
    folder, names = place
    metrics = read_metrics(metrics_files(folder, names), "|".join([REPORTED.pattern, *map(re.escape, more)]))
    remarks = list(metrics.remarks)
    if files.METRICS not in names:
        remarks.append(f"there is no {files.METRICS}")
    config = _config(folder, names, remarks)
    status = read_status(folder) if files.STATUS in names else None
    if status is None and files.STATUS in names:
        remarks.append(f"{files.STATUS} could not be read")
    run = Run(
        folder=folder,
        label=label,
        config=config,
        overrides=tuple(map(str, (status and status.overrides) or _overrides(folder))),
        status=_state(folder, status),
        error=str((status and status.error) or ""),
        metrics=metrics.series,
        broken=metrics.broken,
        remarks=remarks,
    )
    return run if status else _by_its_rollouts(run)


def _config(folder: Path, names: set[str], remarks: list[str]) -> dict[str, Scalar]:
    if files.CONFIG not in names:
        remarks.append(f"there is no {files.CONFIG}, so its settings are unknown")
        return {}
    try:
        return flat((folder / files.CONFIG).read_text(errors="replace"))
    except (OSError, ValueError) as error:
        remarks.append(f"{files.CONFIG} could not be read ({error}), so its settings are unknown")
        return {}


def _overrides(folder: Path) -> list[str]:
    try:
        return items((folder / files.OVERRIDES).read_text())
    except (OSError, ValueError):
        return []


def _state(folder: Path, status: Status | None) -> str:
    if status is None or status.status not in ("done", "failed", "stopped", "running"):
        return "unknown"
    return "unfinished" if status.status == "running" and not alive(folder, status) else status.status


def _by_its_rollouts(run: Run) -> Run:
    """Older runs left no status: those that learnt from all the rollouts they were to are done."""
    if run.planned is None:
        return run
    return replace(run, status="done" if run.rollouts >= run.planned else "unfinished")
