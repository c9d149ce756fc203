"""A process that has loaded what programs need, and forks for each episode; its programs keep their variables.

Started as `python -s -P -m isentropic.tools.console_server`, with settings in its arguments. It is sent one end of a
connection for each episode, and never reads from it:

    trainer ──a connection──▶ keeper, forked for the episode ──programs──▶ child: caged, and stopped between programs

A keeper sees the programs of its own episode alone. Where its child has ended, it forks another, without variables.
"""

import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn

from isentropic.tools import WORDS, Limits, Outcome, Word
from isentropic.tools.cage import DEATH_SIGNAL, Kept, Limited, aside
from isentropic.tools.fork_server import ERROR, GONE, OUT_OF_MEMORY, Watch, close_others, located, prepared, read, write
from isentropic.tools.program import LENGTH

ASKED = struct.Struct("=dQ")  # CPU seconds that a program may take, and its length; then the program
SAID = struct.Struct("=Bd?Q")  # a word, CPU seconds that it took, whether its process lives, and a length; then text
ENDED: dict[bytes, Word] = {b"\0": "ok", b"\1": "error"}
CHANNEL = 3  # of a child, to its keeper


@dataclass
class Child:
    """A caged process, what it prints, and the channel by which it is told programs and says that one has ended."""

    number: int
    printed: int
    channel: int

    def close(self) -> None:
        os.close(self.printed)
        os.close(self.channel)


class Keeper:
    """Of one episode, in a process of its own, whose input and output is the connection."""

    def __init__(self, function: Callable[[int, str], NoReturn], lines: str, limits: Limits, kept: Kept | Limited):
        self.function, self.lines, self.limits, self.kept = function, lines, limits, kept
        self.buffer = bytearray(limits.output + 1)
        self.child: Child | None = None

    def serve(self) -> None:
        """Until the connection ends, and with it the child."""
        while len(header := read(0, ASKED.size)) == ASKED.size:
            cpu, length = ASKED.unpack(header)
            if len(program := read(0, length)) < length:
                break
            outcome = self.call(program, cpu)
            alive = self.child is not None
            write(0, SAID.pack(WORDS.index(outcome.word), outcome.cpu, alive, len(outcome.said)) + outcome.said)
        if self.child is not None:
            self.watch(self.child, 0.0).kill("killed")
            os.waitpid(self.child.number, 0)

    def watch(self, child: Child, cpu: float) -> Watch:
        """Of what the child does now; it may take so many CPU seconds from here on."""
        watch = Watch(child.number, child.printed, self.limits, self.buffer)
        watch.limits = replace(self.limits, cpu=watch.spent + cpu)
        return watch

    def call(self, program: bytes, cpu: float) -> Outcome:
        """One program; the child is stopped after it, or has ended."""
        child = self.child = self.child or self.fork()
        watch = self.watch(child, cpu)
        before = watch.spent
        with suppress(OSError):
            os.killpg(child.number, signal.SIGCONT)
        word = None
        with suppress(OSError):  # of a channel that the child has closed
            word = self.ended(child, watch, memoryview(LENGTH.pack(len(program)) + program))
        if word is None:
            word, spent, _ = watch.wait()
            child.close()
            self.child = None
        else:
            with suppress(OSError):
                os.killpg(child.number, signal.SIGSTOP)
            spent = watch.spent
        return Outcome(word, bytes(self.buffer[: min(watch.size, self.limits.output)]), max(0.0, spent - before))

    def ended(self, child: Child, watch: Watch, left: memoryview) -> Word | None:
        """How the program ended, when the child says so; None where the child itself has ended, or must."""
        poll = select.poll()
        poll.register(0, 0)
        poll.register(child.printed, select.POLLIN)
        poll.register(child.channel, select.POLLIN | select.POLLOUT)
        while not watch.killed:
            events = dict(poll.poll(1000 * watch.spare_time()))
            if events.get(0, 0) & GONE:
                watch.kill("killed")
            elif events.get(child.printed) and not watch.take():
                poll.unregister(child.printed)  # it has closed its output
            elif (event := events.get(child.channel, 0)) & (select.POLLIN | GONE):
                return self.drained(child, watch, bool(left))
            elif event & select.POLLOUT and left:
                left = left[os.write(child.channel, left) :]
                poll.modify(child.channel, select.POLLIN | (select.POLLOUT if left else 0))
        return None

    def drained(self, child: Child, watch: Watch, early: bool) -> Word | None:
        """What a child says of a program's end, with all that it had printed before; no sound child says it early."""
        try:
            said = os.read(child.channel, 2)
        except OSError:
            said = b""
        word = None if early else ENDED.get(said)
        while word and not watch.killed and select.select([child.printed], [], [], 0)[0]:
            word = word if watch.take() else None
        if said and not word:
            watch.kill("crash")
        return None if watch.killed else word

    def fork(self) -> Child:
        """Another child, which has nothing open but what it prints to and its channel."""
        source, sink = os.pipe()
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        child = os.fork()
        if not child:
            with suppress(BaseException):
                self.be_child(parent, sink, theirs.fileno())
            os._exit(ERROR)
        os.close(sink)
        theirs.close()
        ours.setblocking(False)
        return Child(child, source, ours.detach())

    def be_child(self, parent: int, sink: int, channel: int) -> None:
        """Never returns."""
        os.setsid()
        moved = aside(channel)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.dup2(moved, CHANNEL)
        close_others(CHANNEL + 1, self.kept.rules)
        self.kept.enter(self.limits, parent)
        os._exit(self.run())

    def run(self) -> int:
        try:
            self.function(CHANNEL, self.lines)
        except MemoryError:
            return OUT_OF_MEMORY
        except BaseException:
            return ERROR


def main(arguments: str) -> None:
    """Says what cage it has, then forks a keeper for each connection that it is sent, until nobody is there to send."""
    settings = json.loads(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    asked = socket.socket(fileno=os.dup(0))
    function, folder = located(settings["function"])
    limits = Limits(**settings["limits"])
    kept = prepared(folder, settings["weaker"])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    parent = os.getpid()
    asked.sendall(json.dumps(kept.had).encode() + b"\n")
    while (received := socket.recv_fds(asked, 1, 1))[0]:
        for end in received[1]:
            with suppress(OSError):  # no room for a process: the connection ends
                if not os.fork():
                    with suppress(BaseException):
                        asked.close()
                        os.dup2(end, 0)
                        os.close(end)
                        follow(kept, parent)
                        Keeper(function, settings["lines"], limits, kept).serve()
                    os._exit(0)
            os.close(end)


def follow(kept: Kept | Limited, parent: int) -> None:
    """A keeper ends with the server; elsewhere than on Linux, by its connection alone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if isinstance(kept, Kept):
        kept.control(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
