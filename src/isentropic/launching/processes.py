"""Jobs as processes of this machine: each in a session of its own, so that nothing of it outlives it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isentropic.launching import Job, Outcome
from isentropic.launching.summary import outcome_of
from isentropic.runs.status import ASKS, heard


@dataclass
class Running:
    job: Job
    gpus: list[str]
    process: subprocess.Popen[bytes]
    shown_bytes: int | None  # of its log that this terminal has printed; None prints none

    def outcome(self, stopping: bool) -> Outcome | None:
        """None while it runs. What it may have left running ends with it."""
        if self.shown_bytes is not None:
            self.shown_bytes = echo(self.job.log, self.shown_bytes)
        code = self.process.poll()
        if code is None:
            return None
        kill(self.process.pid)
        outcome = outcome_of(self.job, code, self.process.pid)
        if stopping and outcome.ending == "failed" and outcome.reason.startswith("killed by"):
            return Outcome(self.job, "unfinished", "stopped at once", outcome.seconds)
        return outcome


def start(job: Job, gpus: list[str], variables: Mapping[str, str], show: bool) -> Running:
    job.folder.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        process = subprocess.Popen(
            job.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | variables,
            start_new_session=True,
        )
        return Running(job, gpus, process, log.tell() if show else None)


def echo(log: Path, since: int) -> int:
    with log.open("rb") as file:
        file.seek(since)
        sys.stdout.write(file.read().decode(errors="replace"))
        sys.stdout.flush()
        return file.tell()


def kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@dataclass
class StopRequest:
    """How often, and by which signal, this process was asked to stop."""

    running: list[Running] = field(default_factory=list[Running])
    times: int = 0
    number: int = 0

    def on_signal(self, number: int, frame: Any) -> None:
        """Jobs save a checkpoint at the first, leave at once at the second, and are killed at the third."""
        self.times += 1
        self.number = self.number or number
        messages = ("Stopping after each job's checkpoint; again stops at once.", "Stopping at once.", "Killing.")
        print(messages[min(self.times, 3) - 1], file=sys.stderr, flush=True)
        for one in self.running:
            self.interrupt(one)

    def interrupt(self, one: Running) -> None:
        if one.process.poll() is None:
            # CTRL-C's signal, as Python raises an exception for it wherever a job stands
            one.process.send_signal(signal.SIGINT) if self.times < 3 else kill(one.process.pid)


@contextmanager
def forward_signals() -> Generator[StopRequest]:
    """CTRL-C, SIGTERM and SIGHUP go to the jobs, and whatever ends this process in another way ends them too."""
    stop = StopRequest()
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.signal(number, stop.on_signal) for number in heard(*ASKS)}
    try:
        yield stop
    finally:
        for one in stop.running:
            kill(one.process.pid)
        for number, handler in handlers.items():
            signal.signal(number, handler)
