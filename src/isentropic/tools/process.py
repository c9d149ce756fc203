"""The trainer's side of one fork server: started when needed, asked one call at a time, killed when it must be."""

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import IO, Any

from isentropic.runs.status import ASKS, ENDS, WARNS
from isentropic.tools import WORDS, Limits, Outcome
from isentropic.tools.cage import environment
from isentropic.tools.fork_server import READY, REQUEST, RESPONSE

START_LIMIT = 300.0  # seconds; a cold disk may take a minute to import what a judge needs
GRACE = 30.0  # seconds beyond a call's own limit, after which the server itself must be stuck
COMMAND = (sys.executable, "-s", "-P", "-m", "isentropic.tools.fork_server")

Response = tuple[bytes, int, float, bytes]


@dataclass(frozen=True)
class Settings:
    """What a server loads, and how each of its children is held."""

    function: str  # module:name
    limits: Limits
    prints: bool = False  # the outcome is what the function prints; else what it returns, as JSON
    warm: Sequence[tuple[str, tuple[Any, ...]]] = ()  # functions by module:name, called with these once at the start
    weaker: Sequence[str] = ()  # layers of the cage that are left out
    command: Sequence[str] = COMMAND

    def line(self) -> list[str]:
        said = {"function": self.function, "limits": asdict(self.limits), "prints": self.prints}
        return [*self.command, json.dumps({**said, "weaker": list(self.weaker)})]


class CagedProcess:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self.responses = queue.SimpleQueue[Response | None]()
        self.had: tuple[str, ...] = ()

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ask(self, payload: bytes) -> Outcome:
        """One call by its pickled arguments. `killed` if somebody else ended what ran it. Raises RuntimeError."""
        if not self.alive:
            self.start()
        number = os.urandom(16)
        try:
            assert self.process
            write(self.process, number, payload)
            response = self.responses.get(timeout=self.settings.limits.wall + GRACE)
        except (queue.Empty, OSError) as error:
            self.stop()
            return Outcome("timeout" if isinstance(error, queue.Empty) else "killed", b"")
        if response is None or response[0] != number:
            self.stop()
            return Outcome("killed", b"")
        return Outcome(WORDS[response[1]], response[3], response[2])

    def start(self) -> None:
        """A plain subprocess: multiprocessing would import the trainer's main module, and with it torch, once more."""
        for _ in range(2):  # the first may have been killed from outside
            self.stop()
            with shielded():
                process = subprocess.Popen(
                    self.settings.line(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
                )
            assert process.stdout
            self.process, self.responses = process, queue.SimpleQueue[Response | None]()
            threading.Thread(target=pump, args=(process.stdout, self.responses), daemon=True).start()
            with suppress(OSError, ValueError, queue.Empty):
                write(process, READY, pickle.dumps(list(self.settings.warm)))
                ready = self.responses.get(timeout=START_LIMIT)
                if ready and ready[0] == READY:
                    self.had = tuple(json.loads(ready[3]))
                    return
            if self.process is not process:
                break  # somebody stopped it meanwhile
        self.stop()
        raise RuntimeError(f"a judge could not start; its message is above, its command is {self.settings.line()}")

    def stop(self) -> None:
        """Safe to call at any time, also twice. The reading thread ends with the process and closes its own end."""
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        process.wait()
        assert process.stdin
        with suppress(BrokenPipeError):  # closing flushes, and nobody is left to read
            process.stdin.close()


def write(process: subprocess.Popen[bytes], number: bytes, payload: bytes) -> None:
    assert process.stdin
    process.stdin.write(REQUEST.pack(number, len(payload)) + payload)
    process.stdin.flush()


@contextmanager
def shielded() -> Generator[None]:
    """A process started inside never sees what asks the trainer to stop, which terminals and clusters send to both."""
    if sys.platform == "win32":
        yield
        return
    # a process keeps the mask of the thread that starts it, from its first instruction on
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*ASKS, *WARNS, *ENDS} - {signal.SIGXCPU})  # its own limit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def pump(said: IO[bytes], responses: "queue.SimpleQueue[Response | None]") -> None:
    """Passes responses on as they come, then None: a queue can be waited on with a limit, a pipe not everywhere."""
    with said:
        while len(header := said.read(RESPONSE.size)) == RESPONSE.size:
            number, word, cpu, length = RESPONSE.unpack(header)
            body = said.read(length)
            if len(body) < length or word >= len(WORDS):
                break
            responses.put((number, word, cpu, body))
    responses.put(None)
