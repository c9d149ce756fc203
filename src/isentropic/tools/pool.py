"""Several fork servers, and later one more that stands ready: calls go to whichever is idle, and come back in order."""

import pickle
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from isentropic.tools import Outcome
from isentropic.tools.process import CagedProcess, Settings

TRIES = 2  # of a call whose process was killed by somebody else
SPARE_AFTER = 4  # batches: a pool that sees fewer has no use for what it takes to start one more process


class Pool:
    """Processes start at the first batch of calls, and one more after a few batches.

    A call that hangs costs its own limit and nobody else's time: the server lives on and forks again. Where a server
    itself is killed, one that is ready takes its place.
    """

    def __init__(self, settings: Settings, workers: int) -> None:
        self.settings = settings
        self.workers = [CagedProcess(settings) for _ in range(workers)]
        self.spare = CagedProcess(settings)
        self.batches = 0
        self.lock = threading.Lock()
        self.starting: threading.Thread | None = None
        self.idle = queue.SimpleQueue[CagedProcess]()
        for worker in self.workers:
            self.idle.put(worker)

    def __call__(self, calls: Sequence[tuple[Any, ...]]) -> list[Outcome]:
        """Equal calls are made once. Raises RuntimeError if a process cannot start."""
        payloads = [pickle.dumps(call) for call in calls]
        unique = list(dict.fromkeys(payloads))
        if not unique:
            return []
        with ThreadPoolExecutor(len(self.workers)) as pool:
            outcomes = dict(zip(unique, pool.map(self.ask, unique), strict=True))
        self.batches += 1
        if self.batches >= SPARE_AFTER:
            self.make_ready()
        return [outcomes[payload] for payload in payloads]

    def ask(self, payload: bytes) -> Outcome:
        outcome = Outcome("killed", b"")
        for _ in range(TRIES):
            worker = self.idle.get()
            try:
                outcome = worker.ask(payload)
            finally:
                self.idle.put(self.replaced(worker))
            if outcome.word != "killed":
                return outcome
        return outcome

    def replaced(self, worker: CagedProcess) -> CagedProcess:
        """Itself while it lives; else the spare one if that is ready, whose place it takes."""
        with self.lock:
            if worker.alive or not self.spare.alive or (self.starting and self.starting.is_alive()):
                return worker
            taken, self.spare = self.spare, worker
            self.workers[self.workers.index(worker)] = taken
        self.make_ready()
        return taken

    def make_ready(self) -> None:
        with self.lock:
            if not self.spare.alive and not (self.starting and self.starting.is_alive()):
                self.starting = threading.Thread(target=self.start_spare, daemon=True)
                self.starting.start()

    def start_spare(self) -> None:
        with suppress(RuntimeError):  # whoever needs it will meet the same, and say so
            self.spare.start()

    def close(self) -> None:
        """Ends all processes; the next call starts them again."""
        for worker in (*self.workers, self.spare):
            worker.stop()
        while self.starting and self.starting.is_alive():
            self.spare.stop()
            self.starting.join(0.01)
        self.spare.stop()
