"""Where do jobs run?"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig

Compose = Callable[[Sequence[str]], DictConfig]  # from a job's overrides to its whole config; a fifth of a second
Ending = Literal["done", "failed", "skipped", "unfinished"]


@dataclass(frozen=True)
class Job:
    """One run of a sweep, in a clean process of its own."""

    name: str  # the overrides that vary; its folder within the sweep's
    folder: Path
    overrides: tuple[str, ...]
    command: tuple[str, ...]
    log: Path  # where its output goes


@dataclass(frozen=True)
class Outcome:
    job: Job
    ending: Ending
    reason: str = ""  # the first line of an error, or why a job was skipped or is unfinished
    seconds: float | None = None
    result: float | None = None


class Launcher(ABC):
    """A frozen dataclass of settings, chosen by hydra/launcher=...; `hydra_plugins` has a class of each for Hydra."""

    again: bool  # run finished jobs once more, their folders moved aside

    def queued(self, jobs: Sequence[Job]) -> frozenset[Job]:
        """Those whose scheduler, and not their status.json, says whether they still run; `run` takes them too."""
        return frozenset()

    @abstractmethod
    def run(self, jobs: Sequence[Job], compose: Compose) -> Iterator[Outcome]:
        """Runs these jobs, and yields each outcome as it comes. Raises BadInput for settings that do not fit."""
