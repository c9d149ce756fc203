"""This machine: so many jobs at once, on a GPU each where there are any."""

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isentropic.config.build import BadInput
from isentropic.launching import Compose, Job, Launcher, Outcome
from isentropic.launching.devices import VISIBLE, Resources, cores, resources_of, visible_gpus
from isentropic.launching.processes import Running, forward_signals, start
from isentropic.launching.progress import Progress

POLL = 0.1  # seconds between looks at what runs


@dataclass(frozen=True)
class Local(Launcher):
    """Raises ValueError for fewer jobs or threads than one."""

    jobs: int | None
    threads: int | None
    again: bool

    def __post_init__(self) -> None:
        for name, value in (("jobs", self.jobs), ("threads", self.threads)):
            if value is not None and value < 1:
                raise ValueError(f"{name}={value} must be at least 1, or null")

    def run(self, jobs: Sequence[Job], compose: Compose) -> Iterator[Outcome]:
        """As many at once as fit, in order; one that fails stops no other. Raises SystemExit where it is stopped."""
        gpus, waiting, progress = visible_gpus(os.environ), deque(jobs), Progress(len(jobs))
        resources: Resources | None = None
        with forward_signals() as stop:
            while stop.running or (waiting and not stop.times):
                if waiting and not stop.times:
                    try:
                        resources = resources or check_fits(resources_of(compose(waiting[0].overrides)), gpus)
                    except BadInput as error:
                        yield progress.ended(Outcome(waiting.popleft(), "failed", str(error)), 1)
                        continue
                    chosen = self.choose_gpus(resources, gpus, [one.gpus for one in stop.running])
                    if chosen is not None:
                        stop.running.append(self.start(waiting.popleft(), resources, chosen, gpus, progress))
                        stop.interrupt(stop.running[-1]) if stop.times else None
                        resources = None
                        continue
                ended = [(one, outcome) for one in stop.running if (outcome := one.outcome(stop.times > 0))]
                for one, outcome in ended:
                    stop.running.remove(one)
                    yield progress.ended(outcome, 1 + len(stop.running))
                if not ended:
                    time.sleep(POLL)
        if stop.times:
            raise SystemExit(128 + stop.number)

    def at_once(self, resources: Resources, gpus: list[str]) -> int:
        if self.jobs is not None:
            return self.jobs
        return max(1, len(gpus) // process_count(resources, gpus)) if resources.gpu and gpus else 1

    def choose_gpus(self, resources: Resources, gpus: list[str], busy: Sequence[list[str]]) -> list[str] | None:
        """The GPUs for a job beside those that are `busy`, or None to wait. More `jobs` than GPUs share them."""
        if len(busy) >= self.at_once(resources, gpus):
            return None
        if not resources.gpu:
            return []
        load = Counter(gpu for one in busy for gpu in one)
        chosen = sorted(gpus, key=lambda gpu: load[gpu])[: process_count(resources, gpus)]
        return chosen if self.jobs is not None or not any(load[gpu] for gpu in chosen) else None

    def start(self, job: Job, resources: Resources, chosen: list[str], gpus: list[str], progress: Progress) -> Running:
        at_once = self.at_once(resources, gpus)
        variables = {VISIBLE: ",".join(chosen)} if chosen else {}
        if self.threads is not None:
            variables["OMP_NUM_THREADS"] = str(self.threads)
        elif at_once > 1 and "OMP_NUM_THREADS" not in os.environ:  # one job at a time runs as it does by hand
            variables["OMP_NUM_THREADS"] = str(max(1, cores() // (at_once * process_count(resources, gpus))))
        progress.started(job, chosen)
        return start(job, chosen, variables, show=at_once == 1 and sys.stdout.isatty())


def check_fits(resources: Resources, gpus: list[str]) -> Resources:
    """Raises BadInput for a job that this machine cannot hold."""
    if resources.nodes > 1:
        raise BadInput(
            f"trainer.num_nodes={resources.nodes} is more than this machine; hydra/launcher=slurm has several"
        )
    if resources.gpu and gpus and process_count(resources, gpus) > len(gpus):
        raise BadInput(f"trainer.devices={resources.processes} is more than the {len(gpus)} GPUs that are visible here")
    return resources


def process_count(resources: Resources, gpus: list[str]) -> int:
    return resources.processes or max(1, len(gpus))
