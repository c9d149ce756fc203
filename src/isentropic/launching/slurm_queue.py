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
from isentropic.launching.local import Pace
from isentropic.launching.summary import last_line
from isentropic.runs.status import FILE, read

USUAL = ("None", "Priority", "Resources", "BeginTime", "JobArrayTaskLimit", "Cleaning", "Dependency")  # to wait for
GONE = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE")
HIDDEN = ".slurm"  # in a sweep's folder: scripts, what was submitted as what, and SLURM's own output


@dataclass(frozen=True)
class Submission:
    id: str  # 12_3 in an array, or 12
    before: int  # when status.json had last been written, in nanoseconds; 0 for never


class Submissions:
    """Of a sweep, kept in its folder, so that a later call of the same command finds them in the queue."""

    def __init__(self, sweep: Path) -> None:
        self.file = sweep / HIDDEN / "submitted.json"
        kept = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        self.of = {name: Submission(**one) for name, one in kept.items()}

    def add(self, ids: Mapping[Job, str]) -> None:
        self.of |= {job.name: Submission(number, written(job)) for job, number in ids.items()}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        unfinished.write_text(json.dumps({name: vars(one) for name, one in self.of.items()}), encoding="utf-8")
        os.replace(unfinished, self.file)


def folder_of(jobs: Iterable[Job]) -> Path:
    """The sweep's."""
    job = next(iter(jobs))
    return job.folder.parents[len(Path(job.name).parts) - 1]


def written(job: Job) -> int:
    file = job.folder / FILE
    return file.stat().st_mtime_ns if file.exists() else 0


@dataclass(frozen=True)
class State:
    name: str  # PENDING, RUNNING, ...
    reason: str  # why it is not running: Resources, PartitionTimeLimit, ...

    def __str__(self) -> str:
        return self.name if self.name != "PENDING" or self.reason == "None" else f"{self.name}, {self.reason}"


def states() -> dict[str, State] | None:
    """Of all jobs that this user has in the queue, by number; None where the controller does not answer."""
    command = ["squeue", "--noheader", "--array", f"--user={getpass.getuser()}", "--format=%i|%T|%r"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    except FileNotFoundError as error:
        raise BadInput(
            "squeue is not to be found here; SLURM's launchers work where sbatch does, and hydra/launcher=local on any "
            "machine"
        ) from error
    except subprocess.SubprocessError:
        return None
    found = (line.split("|", 2) for line in result.stdout.splitlines())
    return {number: State(state, reason) for number, state, reason in found if state not in GONE}


def follow(waiting: Mapping[Job, Submission], poll: float) -> Iterator[Outcome]:
    """Tells of each end. CTRL-C and SIGTERM end the wait and not the jobs, and raise SystemExit."""
    left, begun, gone, odd, pace = dict(waiting), set[Job](), set[str](), set[str](), Pace(len(waiting))
    try:
        with leaving():
            while left:
                queue = states()
                for said in strange(queue, left):
                    print(said, flush=True) if said not in odd else None
                    odd.add(said)
                for job, one in list(left.items()) if queue is not None else ():
                    state = (queue or {}).get(one.id)
                    if state and state.name == "RUNNING" and job not in begun:
                        begun.add(job)
                        pace.begin(job, [])
                    if state is None and (settled(job, one) or one.id in gone):
                        del left[job]
                        yield pace.tell(ended(job, one), max(1, len(begun & left.keys())))
                    elif state is None:
                        gone.add(one.id)
                if left:
                    time.sleep(poll)
    except SystemExit:
        yield from told(left)
        raise


@contextmanager
def leaving() -> Generator[None]:
    def leave(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def strange(queue: Mapping[str, State] | None, waiting: Mapping[Job, Submission]) -> Iterator[str]:
    """What may keep a job in the queue for ever."""
    if queue is None:
        yield "SLURM's controller does not answer; asking again until it does"
        return
    for job, one in waiting.items():
        state = queue.get(one.id)
        if state and state.name == "PENDING" and state.reason not in USUAL:
            yield f"SLURM does not start {job.name} ({one.id}), because of {state.reason}"


def told(waiting: Mapping[Job, Submission]) -> Iterator[Outcome]:
    """That they are in the queue."""
    if waiting:
        print("The jobs stay in the queue; the same command shows how they stand, scancel ends them.", flush=True)
    queue = (states() if waiting else None) or {}
    for job, one in waiting.items():
        how = f" ({queue[one.id]})" if one.id in queue else ""
        yield Outcome(job, "unfinished", f"in the queue as {one.id}{how}")


def settled(job: Job, submission: Submission) -> bool:
    """Whether it has said how it ended; network file systems show that seconds later."""
    status = read(job.folder)
    return status is not None and written(job) != submission.before and status.status != "running"


def ended(job: Job, submission: Submission) -> Outcome:
    """How a job that is no longer in the queue ended: by its status, or by what SLURM remembers of it."""
    status = read(job.folder)
    if status is None or written(job) == submission.before:
        why = remembered(submission.id)
        return Outcome(job, "failed", f"{why} before it began: {last_line(job) or 'it said nothing'}")
    if status.status == "done":
        return Outcome(job, "done", "", status.seconds, status.result)
    if status.status == "stopped":
        return Outcome(job, "unfinished", f"{status.error}; the same command goes on with it", status.seconds)
    if status.status == "running":
        why = f"{remembered(submission.id)} without a word; the same command goes on with it"
        return Outcome(job, "unfinished", why, status.seconds)
    return Outcome(job, "failed", status.error or "failed", status.seconds)


def remembered(number: str) -> str:
    """SLURM forgets a job minutes after its end (MinJobAge)."""
    try:
        result = subprocess.run(["scontrol", "show", "job", number], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return f"job {number} ended"
    state = re.search(r"JobState=(\w+)", result.stdout)
    return f"job {number} ended as {state[1]}" if state else f"job {number} ended"
