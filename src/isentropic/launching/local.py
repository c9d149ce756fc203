"""This machine: so many jobs at once, on a GPU each where there are any."""

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isentropic.config.build import BadInput
from isentropic.launching import Compose, Job, Launcher, Outcome
from isentropic.launching.devices import VISIBLE, Needs, cores, needs, visible
from isentropic.launching.processes import Running, start, stoppable
from isentropic.launching.summary import clock

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
        gpus, waiting, pace = visible(os.environ), deque(jobs), Pace(len(jobs))
        wanted: Needs | None = None
        with stoppable() as stop:
            while stop.running or (waiting and not stop.times):
                if waiting and not stop.times:
                    try:
                        wanted = wanted or fitting(needs(compose(waiting[0].overrides)), gpus)
                    except BadInput as error:
                        yield pace.tell(Outcome(waiting.popleft(), "failed", str(error)), 1)
                        continue
                    place = self.place(wanted, gpus, [one.gpus for one in stop.running])
                    if place is not None:
                        stop.running.append(self.begin(waiting.popleft(), wanted, place, gpus, pace))
                        stop.tell(stop.running[-1]) if stop.times else None
                        wanted = None
                        continue
                ended = [(one, outcome) for one in stop.running if (outcome := one.ended(stop.times > 0))]
                for one, outcome in ended:
                    stop.running.remove(one)
                    yield pace.tell(outcome, 1 + len(stop.running))
                if not ended:
                    time.sleep(POLL)
        if stop.times:
            raise SystemExit(128 + stop.number)

    def at_once(self, wanted: Needs, gpus: list[str]) -> int:
        if self.jobs is not None:
            return self.jobs
        return max(1, len(gpus) // size(wanted, gpus)) if wanted.gpu and gpus else 1

    def place(self, wanted: Needs, gpus: list[str], busy: Sequence[list[str]]) -> list[str] | None:
        """The GPUs for a job beside those that are `busy`, or None to wait. More `jobs` than GPUs share them."""
        if len(busy) >= self.at_once(wanted, gpus):
            return None
        if not wanted.gpu:
            return []
        load = Counter(gpu for one in busy for gpu in one)
        chosen = sorted(gpus, key=lambda gpu: load[gpu])[: size(wanted, gpus)]
        return chosen if self.jobs is not None or not any(load[gpu] for gpu in chosen) else None

    def begin(self, job: Job, wanted: Needs, place: list[str], gpus: list[str], pace: "Pace") -> Running:
        at_once = self.at_once(wanted, gpus)
        variables = {VISIBLE: ",".join(place)} if place else {}
        if self.threads is not None:
            variables["OMP_NUM_THREADS"] = str(self.threads)
        elif at_once > 1 and "OMP_NUM_THREADS" not in os.environ:  # one job at a time runs as it does by hand
            variables["OMP_NUM_THREADS"] = str(max(1, cores() // (at_once * size(wanted, gpus))))
        pace.begin(job, place)
        return start(job, place, variables, show=at_once == 1 and sys.stdout.isatty())


def fitting(wanted: Needs, gpus: list[str]) -> Needs:
    """Raises BadInput for a job that this machine cannot hold."""
    if wanted.nodes > 1:
        raise BadInput(f"trainer.num_nodes={wanted.nodes} is more than this machine; hydra/launcher=slurm has several")
    if wanted.gpu and gpus and size(wanted, gpus) > len(gpus):
        raise BadInput(f"trainer.devices={wanted.processes} is more than the {len(gpus)} GPUs that are visible here")
    return wanted


def size(wanted: Needs, gpus: list[str]) -> int:
    return wanted.processes or max(1, len(gpus))


class Pace:
    """A line as each job starts and ends, with what is left and about how long that takes."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self.begun, self.ended = jobs, 0, 0
        self.clock = {"": time.monotonic()}
        self.seconds: list[float] = []

    def begin(self, job: Job, place: list[str]) -> None:
        self.begun += 1
        self.clock[job.name] = time.monotonic()
        where = f" on GPU {' '.join(place)}" if place else ""
        print(f"start {self.begun}/{self.jobs}  {job.name}{where}", flush=True)

    def tell(self, outcome: Outcome, at_once: int) -> Outcome:
        self.ended += 1
        name, now, left = outcome.job.name, time.monotonic(), self.jobs - self.ended
        took = now - self.clock.get(name, now)
        if outcome.ending == "done":
            self.seconds.append(took)
        known = self.seconds and left
        about = f", about {clock(left / at_once * sum(self.seconds) / len(self.seconds))}" if known else ""
        why = f": {outcome.reason}" if outcome.reason else ""
        print(
            f"{outcome.ending} {self.ended}/{self.jobs}  {name} in {clock(took)}{why}; {left} left{about}", flush=True
        )
        return outcome
