"""What the launchers of SLURM have in common: what to ask for, what is in the queue, and how it ends."""

import os
import re
import shutil
import signal
from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from isentropic.config.build import BadInput
from isentropic.launching import Compose, Job, Launcher, Outcome
from isentropic.launching.devices import Needs, needs
from isentropic.launching.slurm_queue import Submissions, folder_of, follow, states, told

TRAINER = ("trainer", "experiment", "debug", "local")  # overrides that may change how many GPUs a job wants


@dataclass(frozen=True)
class Cluster(Launcher):
    """Nodes and tasks are the trainer's: num_nodes, and one task for each of its devices.

    Raises ValueError for limits that allow nothing.
    """

    partition: str | None
    account: str | None
    qos: str | None
    constraint: str | None
    time: int
    gpus_per_node: int | None
    cpus_per_task: int | None
    mem_gb: int | None
    parallel: int | None
    array_size: int
    warning: int
    requeues: int
    setup: list[str]
    extra: list[str]
    dry: bool
    wait: bool
    poll: float
    again: bool

    def __post_init__(self) -> None:
        for name in ("time", "array_size", "warning", "poll", "cpus_per_task", "mem_gb", "parallel"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value} must be above 0")
        for one in self.extra:
            if not re.match(r"--[a-z]", one):
                raise ValueError(f"extra={one} is no option of sbatch, which are written --name=value or --name")
        if self.requeues < 0:
            raise ValueError(f"requeues={self.requeues} must be at least 0")
        if self.warning >= 60 * self.time:
            raise ValueError(
                f"warning={self.warning} seconds before the limit leave nothing of time={self.time} minutes; a job "
                "must be warned later, or have more time"
            )

    @abstractmethod
    def submit(self, jobs: Sequence[Job], options: Mapping[str, Any]) -> Mapping[Job, str]:
        """At most `array_size` jobs, with options of sbatch; SLURM's number of each. Raises BadInput for a refusal."""

    @abstractmethod
    def script(self, jobs: Sequence[Job], options: Mapping[str, Any]) -> str:
        """What sbatch would be given."""

    def known(self, jobs: Sequence[Job]) -> frozenset[Job]:
        """Those that wrote their status as jobs of SLURM, or may soon."""
        of = Submissions(folder_of(jobs)).of if jobs else {}
        return frozenset(job for job in jobs if job.name in of)

    def run(self, jobs: Sequence[Job], compose: Compose) -> Iterator[Outcome]:
        """Submits what is not in the queue. CTRL-C while it waits leaves all of it there."""
        if not jobs:
            return
        queue = {} if self.dry and shutil.which("squeue") is None else states()
        if queue is None:
            raise BadInput("SLURM's controller does not answer; `scontrol ping` may say why")
        known, name = Submissions(folder_of(jobs)), folder_of(jobs).name
        found = {job: one for job in jobs if (one := known.of.get(job.name)) and one.id in queue}
        if found:
            print(f"{len(found)} jobs are in the queue from an earlier call", flush=True)
        groups: dict[Needs, list[Job]] = {}
        for job, wanted in wants([job for job in jobs if job not in found], compose):
            if isinstance(wanted, BadInput):
                yield Outcome(job, "failed", str(wanted))
            else:
                groups.setdefault(wanted, []).append(job)
        for wanted, alike in groups.items():
            for first in range(0, len(alike), self.array_size):
                array, options = alike[first : first + self.array_size], self.options(wanted, name)
                if self.dry:
                    print(self.script(array, options), flush=True)
                    yield from (Outcome(job, "unfinished", "not submitted, as dry=true") for job in array)
                    continue
                ids = self.submit(array, options)
                known.add(ids)
                found |= {job: known.of[job.name] for job in ids}
        here = {job: found[job] for job in jobs if job in found}
        yield from follow(here, self.poll) if self.wait and not self.dry else told(here)

    def options(self, wanted: Needs, name: str) -> dict[str, Any]:
        """Of sbatch. Raises BadInput where nobody says how many tasks a node has."""
        gpus = self.gpus_per_node if self.gpus_per_node is not None else wanted.processes
        tasks = wanted.processes or gpus
        if not tasks:
            raise BadInput("trainer.devices is for SLURM to know before the job starts; give its number")
        given: dict[str, Any] = {
            "job_name": name,
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "time": self.time,
            "nodes": wanted.nodes,
            "ntasks_per_node": tasks,
            "gpus_per_node": gpus if wanted.gpu else None,
            "cpus_per_task": self.cpus_per_task,
            "mem": f"{self.mem_gb}G" if self.mem_gb else None,
        }
        further = (one[2:].partition("=") for one in self.extra)
        chosen = {name: value if equals else True for name, equals, value in further}
        return {option: value for option, value in given.items() if value} | chosen

    def prologue(self) -> list[str]:
        """Lines of the batch script before srun, which since 22.05 no longer hears of --cpus-per-task from sbatch."""
        cpus = self.cpus_per_task
        threads = [f"export SRUN_CPUS_PER_TASK={cpus} OMP_NUM_THREADS=${{OMP_NUM_THREADS:-{cpus}}}"] if cpus else []
        return [*threads, *self.setup]


LAST, CHECKPOINT = "ckpt_path=last", "checkpoints/last.ckpt"
# The exit codes of a run that was warned of the time limit: it has saved, or had nothing to save.
WARNED = tuple(128 + getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
# A rank that fails must not leave the others waiting, nor one that has saved end those that still write.
SRUN = ("--kill-on-bad-exit=0", "--wait=300")


def wants(jobs: Sequence[Job], compose: Compose) -> Iterator[tuple[Job, Needs | BadInput]]:
    """What each asks for; composes one job of those that cannot differ in it."""
    known: dict[tuple[str, ...], Needs | BadInput] = {}
    for job in jobs:
        key = tuple(line for line in job.overrides if line.lstrip("+~").startswith(TRAINER))
        if key not in known:
            try:
                known[key] = needs(compose(job.overrides))
            except BadInput as error:
                known[key] = error
        yield job, known[key]


def resumed(job: Job) -> list[str]:
    """Its command; once it has a checkpoint of its own, a requeue goes on from that, whatever it first began with."""
    begun_elsewhere = any(part.startswith("ckpt_path=") and part != LAST for part in job.command)
    return [*job.command, LAST] if begun_elsewhere and (job.folder / CHECKPOINT).exists() else list(job.command)


@contextmanager
def outside() -> Generator[None]:
    """Without what an allocation around this process says, which sbatch would take for the job's."""
    around = [name for name in os.environ if name.startswith("SLURM_") and name != "SLURM_CONF"]
    hidden = {name: os.environ.pop(name) for name in around}
    try:
        yield
    finally:
        os.environ |= hidden
