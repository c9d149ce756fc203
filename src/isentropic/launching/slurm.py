"""SLURM, through one batch script of plain shell per job array, which needs nothing but sbatch."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from isentropic.config.build import BadInput
from isentropic.launching import Compose, Job, Launcher, Outcome
from isentropic.launching.devices import Resources, resources_of
from isentropic.launching.slurm_queue import SLURM_FOLDER, Submissions, follow, queue_states, still_queued, sweep_folder

SCRIPT = """\
#!/bin/bash
{options}

{setup}
case "$SLURM_ARRAY_TASK_ID" in
{cases}
esac
mkdir -p "$folder"
srun {srun} {prefix}"$@" >> "$log" 2>&1
code=$?
# A run that is warned of the time limit saves a checkpoint and exits with the number of the signal above 128.
if [[ " {saved} " == *" $code "* && "${{SLURM_RESTART_COUNT:-0}}" -lt {requeues} ]]; then
    exec scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
fi
exit $code
"""
# Exit codes of a run that has saved a checkpoint after a warning, or had nothing to save yet.
SAVED_CODES = tuple(128 + getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
# A rank that fails must not leave the others waiting, nor one that has saved end those that still write.
SRUN_OPTIONS = ("--kill-on-bad-exit=0", "--wait=300")
LAST, CHECKPOINT = "ckpt_path=last", "checkpoints/last.ckpt"
TRAINER_GROUPS = ("trainer", "experiment", "debug", "local")  # overrides that may change how many GPUs a job needs

Options = Mapping[str, str | int | bool]


@dataclass(frozen=True)
class Slurm(Launcher):
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
    srun: list[str]
    prefix: list[str]
    python: str | None
    dry: bool
    wait: bool
    poll: float
    again: bool

    def __post_init__(self) -> None:
        for name in ("time", "array_size", "warning", "poll", "cpus_per_task", "mem_gb", "parallel"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value} must be above 0")
        for name, program in (("extra", "sbatch"), ("srun", "srun")):
            for option in getattr(self, name):
                if not re.match(r"--[a-z]", option):
                    raise ValueError(
                        f"{name}={option} is no option of {program}, which are written --name=value or --name"
                    )
        if self.requeues < 0:
            raise ValueError(f"requeues={self.requeues} must be at least 0")
        if self.warning >= 60 * self.time:
            raise ValueError(
                f"warning={self.warning} seconds before the limit leave nothing of time={self.time} minutes; a job "
                "must be warned later, or have more time"
            )

    def queued(self, jobs: Sequence[Job]) -> frozenset[Job]:
        """Jobs that were submitted, whether they wait, run or have ended."""
        by_name = Submissions(sweep_folder(jobs)).by_name if jobs else {}
        return frozenset(job for job in jobs if job.name in by_name)

    def run(self, jobs: Sequence[Job], compose: Compose) -> Iterator[Outcome]:
        """Submits what is not in the queue. CTRL-C while it waits leaves all of it there."""
        if not jobs:
            return
        states = {} if self.dry and shutil.which("squeue") is None else queue_states()
        if states is None and not self.dry:
            raise BadInput("SLURM's controller does not answer; `scontrol ping` may say why")
        states = states or {}
        submissions, name = Submissions(sweep_folder(jobs)), sweep_folder(jobs).name
        found = {job: one for job in jobs if (one := submissions.by_name.get(job.name)) and one.id in states}
        if found:
            print(f"{len(found)} jobs are in the queue from an earlier call", flush=True)
        arrays: dict[Resources, list[Job]] = {}
        for job, resources in resources_of_jobs([job for job in jobs if job not in found], compose):
            if isinstance(resources, BadInput):
                yield Outcome(job, "failed", str(resources))
            else:
                arrays.setdefault(resources, []).append(job)
        for resources, alike in arrays.items():
            for first in range(0, len(alike), self.array_size):
                array, options = alike[first : first + self.array_size], self.options(resources, name)
                if self.dry:
                    print(self.script(array, options), flush=True)
                    yield from (Outcome(job, "unfinished", "not submitted, as dry=true") for job in array)
                    continue
                ids = self.submit(array, options)
                submissions.add(ids)
                found |= {job: submissions.by_name[job.name] for job in ids}
        in_queue = {job: found[job] for job in jobs if job in found}
        yield from follow(in_queue, self.poll) if self.wait and not self.dry else still_queued(in_queue)

    def options(self, resources: Resources, name: str) -> Options:
        """Of sbatch. Raises BadInput where nobody says how many tasks a node has."""
        gpus = self.gpus_per_node if self.gpus_per_node is not None else resources.processes
        tasks = resources.processes or gpus
        if not tasks:
            raise BadInput("trainer.devices is for SLURM to know before the job starts; give its number")
        given = {
            "job_name": name,
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "time": self.time,
            "nodes": resources.nodes,
            "ntasks_per_node": tasks,
            "gpus_per_node": gpus if resources.gpu else None,
            "cpus_per_task": self.cpus_per_task,
            "mem": f"{self.mem_gb}G" if self.mem_gb else None,
        }
        further = (option[2:].partition("=") for option in self.extra)
        chosen = {name: value if equals else True for name, equals, value in further}
        return {option: value for option, value in given.items() if value} | chosen

    def submit(self, jobs: Sequence[Job], options: Options) -> Mapping[Job, str]:
        """At most `array_size` jobs; SLURM's number of each. Raises BadInput for a refusal."""
        folder = sweep_folder(jobs) / SLURM_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        file = next(path for path in (folder / f"array{i}.sh" for i in count()) if not path.exists())
        file.write_text(self.script(jobs, options), encoding="utf-8")
        command = ["sbatch", "--parsable", str(file)]
        try:
            with without_allocation():
                result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            raise BadInput(f"sbatch cannot be run: {error}") from error
        if result.returncode:
            raise BadInput(f"sbatch refused {file}: {result.stderr.strip().splitlines()[-1]}")
        number = result.stdout.strip().partition(";")[0]
        print(f"submitted {len(jobs)} jobs as array {number}, by {file}", flush=True)
        return {job: f"{number}_{i}" for i, job in enumerate(jobs)}

    def script(self, jobs: Sequence[Job], options: Options) -> str:
        """Each job's output goes to its own log, that of the script itself into the sweep's .slurm folder."""
        throttle = f"%{self.parallel}" if self.parallel else ""
        options = dict(options) | {
            "array": f"0-{len(jobs) - 1}{throttle}",
            "signal": f"USR1@{self.warning}",
            "requeue": True,
            "open-mode": "append",
            "output": f"{sweep_folder(jobs) / SLURM_FOLDER}/%A_%a.out",
        }
        return SCRIPT.format(
            options="\n".join(option_line(name, value) for name, value in options.items()),
            setup="\n".join(self.setup_lines()),
            cases="\n".join(self.case(number, job) for number, job in enumerate(jobs)),
            srun=shlex.join([*SRUN_OPTIONS, *self.srun]),
            prefix="".join(f"{shlex.quote(word)} " for word in self.prefix),
            saved=" ".join(map(str, SAVED_CODES)),
            requeues=self.requeues,
        )

    def setup_lines(self) -> list[str]:
        """Before srun, which since 22.05 does not take --cpus-per-task from sbatch."""
        cpus = self.cpus_per_task
        threads = [f"export SRUN_CPUS_PER_TASK={cpus} OMP_NUM_THREADS=${{OMP_NUM_THREADS:-{cpus}}}"] if cpus else []
        return [*threads, *self.setup]

    def case(self, number: int, job: Job) -> str:
        """Once it has a checkpoint of its own, a requeued job resumes from that, whatever it first started from."""
        command = [self.python or job.command[0], *job.command[1:]]
        lines = [
            f"folder={shlex.quote(str(job.folder))} log={shlex.quote(str(job.log))}",
            f"set -- {shlex.join(command)}",
        ]
        if any(part.startswith("ckpt_path=") and part != LAST for part in command):
            lines.append(f'[ ! -e "$folder/{CHECKPOINT}" ] || set -- "$@" {LAST}')
        return f"{number})\n    " + "\n    ".join([*lines, ";;"])


def option_line(name: str, value: str | int | bool) -> str:
    flag = f"#SBATCH --{name.replace('_', '-')}"
    return flag if value is True else f"{flag}={shlex.quote(str(value))}"


def resources_of_jobs(jobs: Sequence[Job], compose: Compose) -> Iterator[tuple[Job, Resources | BadInput]]:
    """Composes one job of those that cannot changed_jobs in what they ask for."""
    known: dict[tuple[str, ...], Resources | BadInput] = {}
    for job in jobs:
        key = tuple(line for line in job.overrides if line.lstrip("+~").startswith(TRAINER_GROUPS))
        if key not in known:
            try:
                known[key] = resources_of(compose(job.overrides))
            except BadInput as error:
                known[key] = error
        yield job, known[key]


@contextmanager
def without_allocation() -> Generator[None]:
    """Hides SLURM_* variables of an allocation around this process, which sbatch would apply to the job."""
    around = [name for name in os.environ if name.startswith("SLURM_") and name != "SLURM_CONF"]
    hidden = {name: os.environ.pop(name) for name in around}
    try:
        yield
    finally:
        os.environ |= hidden
