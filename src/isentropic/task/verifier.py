"""Judges answers in processes of their own, because what a model writes may hang or break any library.

A time limit by signal fails off the main thread and while a library holds the interpreter; killing does not.
"""

import importlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

from isentropic.task import Verdict

START_LIMIT = 300.0  # seconds; a cold disk may take a minute to import what a judge needs
TIMEOUT = Verdict(0.0, False, "timeout")
CRASH = Verdict(0.0, False, "crash")


class Verifier:
    """Calls a function `judge`, given as module:name, with the arguments of each call, and returns its verdicts.

    The function returns (reward, correct, status). A call that takes longer than `timeout` seconds is a "timeout", one
    that raises or ends its process is a "crash"; either way the next call finds a fresh process. Equal calls of a batch
    are judged once. Raises ValueError for limits that allow nothing, RuntimeError if a process cannot start.
    """

    def __init__(self, judge: str, workers: int, timeout: float, memory: float) -> None:
        """Processes start at the first call. `memory` is in GiB for each of them, and not limited on Windows."""
        for name, value in (("workers", workers), ("timeout", timeout), ("memory", memory)):
            if value <= 0:
                raise ValueError(f"task.{name}={value} lets no answer be judged; it must be above 0")
        self.settings = (judge, workers, timeout, memory)
        self.workers = [Worker(judge, timeout, memory) for _ in range(workers)]
        self.idle = queue.SimpleQueue[Worker]()
        for worker in self.workers:
            self.idle.put(worker)

    def __call__(self, calls: Sequence[tuple[Any, ...]]) -> list[Verdict]:
        payloads = [pickle.dumps(call) for call in calls]
        unique = list(dict.fromkeys(payloads))
        with ThreadPoolExecutor(len(self.workers)) as pool:
            verdicts = dict(zip(unique, pool.map(self.judge, unique), strict=True))
        return [verdicts[payload] for payload in payloads]

    def __reduce__(self) -> tuple[type["Verifier"], tuple[str, int, float, float]]:
        return Verifier, self.settings  # a copy, or one in another process, starts processes of its own

    def judge(self, payload: bytes) -> Verdict:
        worker = self.idle.get()
        try:
            return worker.judge(payload)
        finally:
            self.idle.put(worker)

    def close(self) -> None:
        for worker in self.workers:
            worker.stop()


class Worker:
    """One process, started when needed and killed when it must be."""

    def __init__(self, judge: str, timeout: float, memory: float) -> None:
        self.command = [sys.executable, "-P", "-m", __name__, judge, str(timeout), str(memory)]
        self.timeout = timeout
        self.process: subprocess.Popen[bytes] | None = None
        self.lines = queue.SimpleQueue[bytes]()

    def judge(self, payload: bytes) -> Verdict:
        if self.process is None or self.process.poll() is not None:
            self.start()
        try:
            self.write(payload)
            line = self.lines.get(timeout=self.timeout)
        except (queue.Empty, OSError) as error:
            self.stop()
            return TIMEOUT if isinstance(error, queue.Empty) else CRASH
        if not line:
            self.stop()
            return CRASH
        return Verdict(*json.loads(line))

    def start(self) -> None:
        """A plain subprocess: multiprocessing would import the trainer's main module, and with it torch, once more."""
        self.stop()
        path = os.pathsep.join(folder for folder in sys.path if folder)
        environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        with shielded():
            self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, env=environment)
        self.lines = queue.SimpleQueue[bytes]()
        assert self.process.stdout
        threading.Thread(target=pump, args=(self.process.stdout, self.lines), daemon=True).start()
        try:
            ready = self.lines.get(timeout=START_LIMIT)
        except queue.Empty:
            ready = b""
        if not ready:
            self.stop()
            raise RuntimeError(f"a verifier could not start; its message is above, its command is {self.command}")

    def write(self, payload: bytes) -> None:
        assert self.process and self.process.stdin
        self.process.stdin.write(payload)
        self.process.stdin.flush()

    def stop(self) -> None:
        """Safe to call at any time, also twice. The reading thread ends with the process and closes its own end."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        try:
            assert self.process.stdin
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # closing flushes, and nobody is left to read
        self.process = None


@contextmanager
def shielded() -> Generator[None]:
    """A process started inside never sees what asks the trainer to stop, which terminals and clusters send to both."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
    )  # a process keeps the mask of the thread that starts it, from its first instruction on
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def pump(lines: IO[bytes], received: "queue.SimpleQueue[bytes]") -> None:
    """Passes lines on as they come, then an empty one: a queue can be waited on with a limit, a pipe not everywhere."""
    with lines:
        for line in lines:
            received.put(line)
    received.put(b"")


def serve(judge: str, timeout: float, memory: float) -> None:
    """The process's own loop: a pickled call in, a line of JSON out, until the input ends.

    JSON on the way back, as a judge may evaluate what a model wrote, and unpickling would then trust it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where there is no mask to inherit
    verdicts = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not be read as a verdict
    module, _, name = judge.partition(":")
    function = getattr(importlib.import_module(module), name)
    limit_memory(memory)
    print("ready", file=verdicts, flush=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)  # warnings about each odd answer would bury the trainer's own
    while True:
        try:
            arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        alarm(2 * timeout + 1)
        try:
            verdict = function(*arguments)
        except Exception:
            verdict = (CRASH.reward, CRASH.correct, CRASH.status)
        alarm(0)
        print(json.dumps(verdict), file=verdicts, flush=True)


def alarm(seconds: float) -> None:
    """The kernel ends this process if the trainer died while an answer hangs: nobody else would."""
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def limit_memory(gibibytes: float) -> None:
    if sys.platform != "win32":
        import resource

        limit = int(gibibytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
