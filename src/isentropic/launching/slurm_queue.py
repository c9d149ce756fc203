"""What SLURM knows of a sweep's jobs. Asks squeue and scontrol, which need no accounting."""

import getpass
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isentropic.config.build import BadInput
from isentropic.launching import Job, Outcome
from isentropic.launching.progress import Progress
from isentropic.launching.summary import last_line
from isentropic.runs.files import STATUS
from isentropic.runs.status import ASKS, heard, read_status

WAITING_REASONS = (  # of a job that starts by itself
    "None",
    "Priority",
    "Resources",
    "BeginTime",
    "JobArrayTaskLimit",
    "Cleaning",
    "Dependency",
)  # it starts by itself
ENDED_STATES = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE")
SLURM_FOLDER = ".slurm"  # in a sweep's folder: scripts, job numbers, and SLURM's own output


@dataclass(frozen=True)
class Submission:
    id: str  # 12_3 in an array, or 12
    status_before: int  # status.json's mtime at submission, in nanoseconds; 0 for none


class Submissions:
    """Job numbers of a sweep, kept in its folder, so that a later call of the same command finds them in the queue."""

    def __init__(self, sweep: Path) -> None:
        self.file = sweep / SLURM_FOLDER / "submitted.json"
        kept = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        self.by_name = {name: Submission(**one) for name, one in kept.items()}

    def add(self, ids: Mapping[Job, str]) -> None:
        self.by_name |= {job.name: Submission(number, status_mtime(job)) for job, number in ids.items()}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        unfinished.write_text(json.dumps({name: vars(one) for name, one in self.by_name.items()}), encoding="utf-8")
        os.replace(unfinished, self.file)


def sweep_folder(jobs: Iterable[Job]) -> Path:
    """The sweep's."""
    job = next(iter(jobs))
    return job.folder.parents[len(Path(job.name).parts) - 1]


def status_mtime(job: Job) -> int:
    file = job.folder / STATUS
    return file.stat().st_mtime_ns if file.exists() else 0


@dataclass(frozen=True)
class State:
    name: str  # PENDING, RUNNING, ...
    reason: str  # why it is not running: Resources, PartitionTimeLimit, ...

    def __str__(self) -> str:
        return self.name if self.name != "PENDING" or self.reason == "None" else f"{self.name}, {self.reason}"


def queue_states() -> dict[str, State] | None:
    """Of all jobs that this user has in the queue, by number; None where the controller does not answer."""
    command = ["squeue", "--noheader", "--array", f"--user={getpass.getuser()}", "--format=%i|%T|%r"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    except FileNotFoundError as error:
        raise BadInput(
            "squeue is not to be found here; hydra/launcher=slurm works where sbatch does, and hydra/launcher=local on "
            "any machine"
        ) from error
    except subprocess.SubprocessError:
        return None
    found = (line.split("|", 2) for line in result.stdout.splitlines())
    return {number: State(state, reason) for number, state, reason in found if state not in ENDED_STATES}


def follow(waiting: Mapping[Job, Submission], poll: float) -> Iterator[Outcome]:
    """Yields each outcome as it comes. What asks a run to end ends the wait and not the jobs, and raises SystemExit."""
    left, begun, left_queue, printed = dict(waiting), set[Job](), set[str](), set[str]()
    progress = Progress(len(waiting))
    try:
        with exit_on_signal():
            while left:
                queue = queue_states()
                for message in stuck_jobs(queue, left):
                    print(message, flush=True) if message not in printed else None
                    printed.add(message)
                for job, one in list(left.items()) if queue is not None else ():
                    state = (queue or {}).get(one.id)
                    if state and state.name == "RUNNING" and job not in begun:
                        begun.add(job)
                        progress.started(job, [])
                    if state is None and (has_ended(job, one) or one.id in left_queue):
                        del left[job]
                        yield progress.ended(final_outcome(job, one), max(1, len(begun & left.keys())))
                    elif state is None:
                        left_queue.add(one.id)
                if left:
                    time.sleep(poll)
    except SystemExit:
        yield from still_queued(left)
        raise


@contextmanager
def exit_on_signal() -> Generator[None]:
    def leave(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.signal(number, leave) for number in heard(*ASKS)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def stuck_jobs(queue: Mapping[str, State] | None, waiting: Mapping[Job, Submission]) -> Iterator[str]:
    """Warnings of jobs that may stay in the queue for ever."""
    if queue is None:
        yield "SLURM's controller does not answer; asking again until it does"
        return
    for job, one in waiting.items():
        state = queue.get(one.id)
        if state and state.name == "PENDING" and state.reason not in WAITING_REASONS:
            yield f"SLURM does not start {job.name} ({one.id}), because of {state.reason}"


def still_queued(waiting: Mapping[Job, Submission]) -> Iterator[Outcome]:
    """Unfinished, with how SLURM says they stand."""
    if waiting:
        print("The jobs stay in the queue; the same command shows how they stand, scancel ends them.", flush=True)
    queue = (queue_states() if waiting else None) or {}
    for job, one in waiting.items():
        how = f" ({queue[one.id]})" if one.id in queue else ""
        yield Outcome(job, "unfinished", f"in the queue as {one.id}{how}")


def has_ended(job: Job, submission: Submission) -> bool:
    """Whether its status.json says how it ended; network file systems show that seconds later."""
    status = read_status(job.folder)
    return status is not None and status_mtime(job) != submission.status_before and status.status != "running"


def final_outcome(job: Job, submission: Submission) -> Outcome:
    """How a job that is no longer in the queue ended: by its status, or by what SLURM remembers of it."""
    status = read_status(job.folder)
    if status is None or status_mtime(job) == submission.status_before:
        why = slurm_state(submission.id)
        return Outcome(job, "failed", f"{why} before it began: {last_line(job) or 'no output'}")
    if status.status == "done":
        return Outcome(job, "done", "", status.seconds, status.result)
    if status.status == "stopped":
        return Outcome(job, "unfinished", f"{status.error}; the same command goes on with it", status.seconds)
    if status.status == "running":
        why = f"{slurm_state(submission.id)} without a status; the same command goes on with it"
        return Outcome(job, "unfinished", why, status.seconds)
    return Outcome(job, "failed", status.error or "failed", status.seconds)


def slurm_state(number: str) -> str:
    """SLURM forgets a job minutes after its end (MinJobAge)."""
    try:
        result = subprocess.run(["scontrol", "show", "job", number], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return f"job {number} ended"
    state = re.search(r"JobState=(\w+)", result.stdout)
    return f"job {number} ended as {state[1]}" if state else f"job {number} ended"
