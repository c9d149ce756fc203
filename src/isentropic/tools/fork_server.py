"""A process that loads what judges or programs need, and forks for each call; the child is caged and runs one.

Started as `python -s -P -m isentropic.tools.fork_server`, with settings in its arguments. A request is its id and the
length of a pickle, then the pickle, which only the child reads: neither a reference nor an answer is ever in the
memory of the server, of which every later child is a copy. A response is the same id, a word, CPU seconds, a length,
and as many bytes.
"""

import gc
import importlib
import io
import json
import os
import pickle
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from isentropic.tools import WORDS, Limits, Word, huge_pages
from isentropic.tools.cage import Kept, Limited, aside, cage, readable

REQUEST, RESPONSE = struct.Struct("=16sQ"), struct.Struct("=16sBdQ")
READY = bytes(16)  # the id of the first response, which answers no request
TAKEN = b"."  # the child has read its pickle
NONCE = 16  # bytes
SETTLING = 0.05  # seconds between looks at a child that has closed its output and lingers
ERROR, OUT_OF_MEMORY = 1, 3  # exit codes
EXITED: dict[int, Word] = {0: "ok", OUT_OF_MEMORY: "memory"}
SIGNALLED: dict[int, Word] = {int(signal.SIGKILL): "killed", int(signal.SIGSYS): "refused"}
ENDS = 256  # file descriptors that a server may have open
GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL  # whoever was at the other end
Function = Callable[..., Any]


class Server:
    def __init__(self, function: Function, prints: bool, limits: Limits, kept: Kept | Limited, answers: int) -> None:
        """`prints`: the result is what the function prints; else it returns it. `answers` is where responses go."""
        self.function, self.prints, self.limits, self.kept, self.answers = function, prints, limits, kept, answers
        self.buffer = bytearray(limits.output + 1 + len(TAKEN) + NONCE)  # used again, so that nothing is left of a call

    def serve(self) -> None:
        """Until the input ends. A child that died with half a request ends it too, since what follows has no start."""
        while len(header := read(0, REQUEST.size)) == REQUEST.size:
            number, length = REQUEST.unpack(header)
            word, cpu, start, end = self.call(length)
            if start is None:
                return
            self.respond(number, word, cpu, memoryview(self.buffer)[start:end])
            self.buffer[:] = bytes(len(self.buffer))

    def respond(self, number: bytes, word: Word, cpu: float, said: memoryview | bytes) -> None:
        write(self.answers, RESPONSE.pack(number, WORDS.index(word), cpu, len(said)))
        write(self.answers, said)

    def call(self, length: int) -> tuple[Word, float, int | None, int]:
        """How it ended, CPU seconds, and where in the buffer stands what it said; None for a request not read."""
        nonce = os.urandom(NONCE)
        source, sink = os.pipe()
        parent = os.getpid()
        child = os.fork()
        if not child:
            with suppress(BaseException):
                os.close(source)
                self.be_child(parent, length, nonce, sink)
            os._exit(ERROR)
        os.close(sink)
        try:
            word, cpu, size = Watch(child, source, self.limits, self.buffer).wait()
        finally:
            os.close(source)
        start = len(TAKEN)
        if bytes(self.buffer[:start]) != TAKEN:
            return word, cpu, None, 0
        if self.prints:
            return word, cpu, start, min(size, start + self.limits.output)
        proven = bytes(self.buffer[start : start + NONCE]) == nonce
        told = size if word == "ok" and proven else 0
        return ("crash" if word == "ok" and not proven else word), cpu, start + NONCE, told

    def be_child(self, parent: int, length: int, nonce: bytes, sink: int) -> None:
        """Never returns. All that is open afterwards is nothing to read, nothing to write to, and its one pipe."""
        os.setsid()
        payload = read(0, length)
        if len(payload) < length:
            os._exit(ERROR)
        write(sink, TAKEN)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        for end in (1, 2):
            os.dup2(sink if self.prints else nowhere, end)
        if self.prints:
            sink = 1
        else:
            os.dup2(sink, 3)
            sink = 3
        close_others(max(3, sink + 1), self.kept.rules)
        self.kept.enter(self.limits, parent)
        os._exit(self.run(payload, nonce, sink))

    def run(self, payload: bytes, nonce: bytes, sink: int) -> int:
        try:
            result = self.function(*pickle.loads(payload))
            if not self.prints:
                write(sink, nonce + json.dumps(result).encode())
            return 0
        except MemoryError:
            return OUT_OF_MEMORY
        except SystemExit as error:
            return error.code if self.prints and isinstance(error.code, int) else ERROR
        except BaseException:
            return ERROR


class Watch:
    """Waits for one child, for as long as it may take, and for what it says, as much as it may say.

    The CPU seconds of its limits are those of the child since it began.
    """

    def __init__(self, child: int, source: int, limits: Limits, buffer: bytearray) -> None:
        self.child, self.source, self.limits, self.buffer = child, source, limits, memoryview(buffer)
        self.clock: int | None = (~child << 3) | 2 if sys.platform == "linux" else None  # of the child's CPU time
        self.begun = time.monotonic()
        self.size = 0
        self.killed: Word | None = None

    def wait(self) -> tuple[Word, float, int]:
        """How it ended, its CPU seconds, and as many bytes of the buffer as it said."""
        while not self.ended():
            pass
        pause = 0.0002
        while True:
            done, status, usage = os.wait4(self.child, os.WNOHANG)
            if done:
                self.end_others()
                cpu = usage.ru_utime + usage.ru_stime
                return self.word(status, cpu), cpu, self.size
            self.spare_time()
            time.sleep(pause)
            pause = min(2 * pause, SETTLING)

    def ended(self) -> bool:
        """Whether there is nothing more to read, after some of it was."""
        poll = select.poll()
        poll.register(self.source, select.POLLIN)
        poll.register(0, 0)  # who asked has gone: nobody else would end this child
        events = dict(poll.poll(1000 * self.spare_time()))
        if events.get(0, 0) & GONE:
            self.kill("killed")
            return True
        if self.source not in events or self.killed:
            return self.killed is not None
        return not self.take() or self.killed is not None

    def take(self) -> int:
        """What can be read, as far as it may say more; how much that was."""
        count = os.readv(self.source, [self.buffer[self.size :]])
        self.size += count
        if self.size == len(self.buffer):
            self.kill("output")
        return count

    @property
    def spent(self) -> float:
        """CPU seconds of the child so far; 0 where the system does not tell."""
        with suppress(OSError):
            return 0.0 if self.clock is None else time.clock_gettime(self.clock)
        return 0.0

    def spare_time(self) -> float:
        """Seconds until it is worth looking again; kills a child that has none left."""
        cpu, wall = self.limits.cpu - self.spent, self.limits.wall - (time.monotonic() - self.begun)
        if min(cpu, wall) <= 0:
            self.kill("timeout")
        return max(0.01, min(cpu / 4, wall))  # a quarter, as threads may spend several seconds in one

    def kill(self, why: Word) -> None:
        self.killed = self.killed or why
        os.kill(self.child, signal.SIGKILL)
        self.end_others()

    def end_others(self) -> None:
        """What the child has forked, where no filter kept it from that."""
        with suppress(OSError):
            os.killpg(self.child, signal.SIGKILL)

    def word(self, status: int, cpu: float) -> Word:
        code = os.waitstatus_to_exitcode(status)
        if self.killed:
            return self.killed
        if code >= 0:
            return EXITED.get(code, "error")
        if -code == signal.SIGXCPU or (-code == signal.SIGKILL and cpu >= self.limits.cpu):
            return "timeout"
        return SIGNALLED.get(-code, "crash")


def close_others(first: int, kept: int | None) -> None:
    """All that is open from there on, but for one."""
    os.closerange(first, ENDS if kept is None else kept)
    if kept is not None:
        os.closerange(kept + 1, ENDS)


def read(end: int, length: int) -> bytes:
    """So many bytes, or fewer where the input ends. Not buffered: what follows is for somebody else."""
    found = io.BytesIO()
    while found.tell() < length and (part := os.read(end, min(length - found.tell(), 2**20))):
        found.write(part)
    return found.getvalue()


def write(end: int, said: bytes | memoryview) -> None:
    while said:
        said = said[os.write(end, said) :]


def located(name: str) -> tuple[Function, str]:
    """A function by module:name, and the folder of its module."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    file = getattr(found, "__file__", None)
    return getattr(found, attribute), os.path.dirname(file) if file else ""


def main(arguments: str) -> None:
    """The settings are trusted, and so are the first calls, which only load and warm what children find."""
    settings = json.loads(arguments)
    gc.disable()  # until all is loaded: a fifth of that time would go into looking for garbage
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where there is no mask to inherit
    answers = aside(os.dup(1))
    os.dup2(2, 1)  # whatever a library prints must not be read as a response
    sys.path.append(os.getcwd())  # one's own judge may lie in the folder of the run
    function, folder = located(settings["function"])
    _, length = REQUEST.unpack(read(0, REQUEST.size))
    for name, values in pickle.loads(read(0, length)):
        located(name)[0](*values)
    kept = prepared(folder, settings["weaker"])
    server = Server(function, settings["prints"], Limits(**settings["limits"]), kept, answers)
    server.respond(READY, "ok", 0.0, json.dumps(kept.had).encode())
    server.serve()


def prepared(folder: str, weaker: Sequence[str]) -> Kept | Limited:
    """The cage of this process's children, when all is loaded."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("900")  # where memory ends, it ends here and not in the trainer
    gc.collect()
    gc.freeze()  # else the first collection of each child copies all pages
    gc.enable()
    huge_pages.merge()
    return cage(readable([folder]), weaker)


if __name__ == "__main__":
    main(sys.argv[1])
