"""The trainer's side of consoles: in each, program after program has the variables that those before it made."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from isentropic.tools import WORDS, Limits, Outcome
from isentropic.tools.cage import environment
from isentropic.tools.console_server import ASKED, SAID
from isentropic.tools.process import GRACE, START_LIMIT, shielded

COMMAND = (sys.executable, "-s", "-P", "-m", "isentropic.tools.console_server")
FUNCTION = "isentropic.tools.program:run_all"
KILLED = Outcome("killed", b"")
SPENT = Outcome("timeout", b"the episode has no CPU time left")


class Consoles:
    """The process that forks them starts with the first. `limits.cpu` is of all programs of a console together."""

    def __init__(
        self, limits: Limits, program: float, lines: str, workers: int, command: Sequence[str] = COMMAND,
        weaker: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """CPU seconds of one program; of all consoles, at most so many run one at a time. `weaker` is for tests."""
        self.limits, self.program, self.command = limits, program, command
        self.settings = {"function": FUNCTION, "limits": vars(limits), "lines": lines, "weaker": list(weaker)}
        self.running = threading.BoundedSemaphore(workers)
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.server: socket.socket | None = None
        self.had: tuple[str, ...] = ()

    def connect(self) -> socket.socket:
        """To a keeper of its own. Raises RuntimeError where the process cannot start."""
        with self.lock:
            for _ in range(2):  # the process may have been killed from outside
                if self.process is None or self.process.poll() is not None:
                    self.start()
                ours, theirs = socket.socketpair()
                assert self.server
                with theirs:
                    try:
                        socket.send_fds(self.server, [b"."], [theirs.fileno()])
                        ours.settimeout(self.limits.wall + GRACE)
                        return ours
                    except OSError:
                        ours.close()
                        self.stop()
        raise RuntimeError("the process that forks consoles was killed twice")

    def start(self) -> None:
        self.stop()
        self.server, theirs = socket.socketpair()
        with theirs, shielded():
            line = [*self.command, json.dumps(self.settings)]
            self.process = subprocess.Popen(line, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=environment())
        self.server.settimeout(START_LIMIT)
        said = b""
        with suppress(OSError):
            while not said.endswith(b"\n") and (part := self.server.recv(4096)):
                said += part
        if not said.endswith(b"\n"):
            self.stop()
            raise RuntimeError(f"a console could not start; its message is above, its command is {line}")
        self.had = tuple(json.loads(said))

    def stop(self) -> None:
        """Ends all consoles with it; safe to call at any time."""
        process, self.process, server, self.server = self.process, None, self.server, None
        if process is not None:
            process.kill()
            process.wait()
        if server is not None:
            server.close()

    def close(self) -> None:
        with self.lock:
            self.stop()


class Console:
    """Of one episode. Its process starts with its first program, and again with the first after one that ended it."""

    def __init__(self, consoles: Consoles) -> None:
        self.consoles = consoles
        self.left = consoles.limits.cpu  # seconds
        self.connection: socket.socket | None = None
        self.ended = False
        self.asking = threading.Lock()

    def ask(self, program: bytes) -> Outcome:
        """How a program ended, and whether the variables are there for the next. Raises RuntimeError."""
        if self.left <= 0:
            return SPENT
        with self.consoles.running, self.asking:
            if self.ended:
                return KILLED
            self.connection = self.connection or self.consoles.connect()
            try:
                outcome = asked(self.connection, program, min(self.left, self.consoles.program))
            except OSError:
                outcome = KILLED
            self.left -= outcome.cpu
            if outcome is KILLED or self.ended:
                self.connection.close()
                self.connection = None
        return outcome

    def close(self) -> None:
        """Ends its processes, a program that runs included."""
        self.ended = True
        if self.connection is not None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
        if self.asking.acquire(blocking=False):
            if self.connection is not None:
                self.connection.close()
                self.connection = None
            self.asking.release()


def asked(connection: socket.socket, program: bytes, cpu: float) -> Outcome:
    """Raises OSError where nobody is at the other end."""
    connection.sendall(ASKED.pack(cpu, len(program)) + program)
    word, spent, alive, length = SAID.unpack(received(connection, SAID.size))
    return Outcome(WORDS[word], received(connection, length), spent, alive)


def received(connection: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        part = connection.recv(min(length - len(found), 2**20))
        if not part:
            raise BrokenPipeError
        found += part
    return bytes(found)
