"""What this machine's cage has, found out by entering it and trying to leave."""

import json
import os
import pickle
import socket
from functools import cache

from isentropic.tools import limits
from isentropic.tools.cage import Cage, told
from isentropic.tools.process import CagedProcess, Settings

SECRETS = ("/proc/self/environ", "/etc/passwd")


@cache
def available() -> tuple[str, ...]:
    """Its layers, but for those that let pass what they are there to hold. Asked once in a process."""
    process = CagedProcess(Settings(f"{__name__}:passed", limits(5.0, 4.0, 1000)))
    try:
        outcome = process.ask(pickle.dumps(()))
    finally:
        had = process.had
        process.stop()
    broken = json.loads(outcome.said) if outcome.word == "ok" else ["seccomp", "landlock", "namespaces"]
    return tuple(layer for layer in had if layer.split()[0] not in broken)


def passed() -> list[str]:
    """The layers that are not there, whoever says so. Called in a caged child."""
    broken: set[str] = set()
    try:
        socket.socket().close()
        broken.add("seccomp")
    except OSError:
        pass
    for path in SECRETS:
        try:
            with open(path, "rb"):
                broken |= {"landlock", "namespaces"}
        except OSError:
            pass
    return sorted(broken)


def checked(cage: Cage) -> list[str]:
    """What to tell of the cage: a line, and a warning if there is one. Raises ValueError for one that is too weak."""
    if not hasattr(os, "fork"):
        raise ValueError("what a model wrote runs in forked processes, which Windows does not have; run under WSL")
    warning = cage.check(available())
    return [told(available()), *([warning] if warning else [])]
