"""The cage: what a process gives up before it sees what a model wrote. For good, without root, by the kernel alone.

    cage: landlock 7, seccomp, namespaces, process limits

Linux on x86_64 and aarch64 has all of it; elsewhere there are process limits only. docs/cage.md says what it holds.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from isentropic.tools import Limits

LAYERS = ("landlock", "seccomp", "namespaces")
LIMITED = "process limits"
DEATH_SIGNAL, SET_DUMPABLE, SET_SECCOMP, SET_NO_NEW_PRIVILEGES, DROP_BOUND = 1, 4, 22, 38, 24
FILTER = 2  # of system calls
CAPABILITIES = 64
ASIDE = 100
CAPABILITY_VERSION = 0x20080522
SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/localtime", "/etc/ld.so.cache",
    "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random",
)  # fmt: skip


@dataclass(frozen=True)
class Cage:
    """What a machine must have to run what a model wrote. Raises ValueError for layers that do not exist."""

    least: Sequence[str] = ("seccomp", "landlock or namespaces")  # all of these
    required: bool = True  # without them a run is refused; false warns instead

    def __post_init__(self) -> None:
        for wanted in self.least:
            if not set(wanted.split(" or ")) <= set(LAYERS):
                raise ValueError(
                    f"cage.least={list(self.least)} asks for {wanted!r}; it is a list of {', '.join(LAYERS)}, "
                    "or of some of them joined by ' or '"
                )

    def check(self, had: Sequence[str]) -> str | None:
        """A warning, if there is something to warn of. Raises ValueError for a machine that has less than it must."""
        missing = [one for one in self.least if not set(one.split(" or ")) & {name.split()[0] for name in had}]
        if not missing:
            return None
        lack = (
            f"this machine has no {' and no '.join(missing)} to cage what a model wrote ({told(had)}), and its text "
            "would run with the rights of whoever trains"
        )
        if self.required:
            raise ValueError(f"{lack}; run where they are, or accept that with task.cage.required=false")
        return f"{lack}, as task.cage.required=false accepts"


STRICT = Cage()


def told(had: Iterable[str]) -> str:
    return f"cage: {', '.join(had) or 'nothing'}"


class Kept:
    """What a fork server makes once, so that each of its children is caged in a millisecond."""

    def __init__(self, readable: Sequence[str], weaker: Iterable[str] = ()) -> None:
        """`weaker` names layers that are left out, for tests of the others."""
        from isentropic.tools import landlock, namespaces, syscalls

        self.had: list[str] = []
        self.rules: int | None = None
        self.filter: bytes | None = None
        chosen = set(LAYERS) - set(weaker)
        isolated = "namespaces" in chosen and namespaces.isolate(readable)
        if "landlock" in chosen and landlock.version():
            self.rules = aside(landlock.ruleset(readable))
            self.had.append(f"landlock {landlock.version()}")
        if "seccomp" in chosen and platform.machine() in syscalls.MACHINES and seccomp_there():
            self.filter = syscalls.filter_of(platform.machine())
            self.had.append("seccomp")
        self.had += ["namespaces"] * isolated + [LIMITED]

    @cached_property
    def libc(self) -> Any:
        return ctypes.CDLL(None, use_errno=True)

    def enter(self, limits: Limits, parent: int) -> None:
        """In the child of `parent`. Raises OSError where a layer that was there cannot be put on."""
        from isentropic.tools import landlock, syscalls

        for option, value in ((DEATH_SIGNAL, signal.SIGKILL), (SET_DUMPABLE, 0), (SET_NO_NEW_PRIVILEGES, 1)):
            self.control(option, value)
        if os.getppid() != parent:
            os._exit(1)  # it died before it could take this one with it
        limit(limits)
        if self.rules is not None:
            landlock.restrict(self.rules)
            os.close(self.rules)
        self.drop_capabilities()
        if self.filter is not None:
            program, memory = syscalls.program(self.filter)
            self.control(SET_SECCOMP, FILTER, ctypes.byref(program))
            del memory

    def control(self, option: int, *values: Any) -> None:
        padded = (*values, 0, 0, 0, 0)[:4]
        arguments = [ctypes.c_ulong(one) if isinstance(one, int) else one for one in padded]
        if self.libc.prctl(option, *arguments) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def drop_capabilities(self) -> None:
        """Of root, and of the first user of a namespace: without them root is a user like any other."""
        for one in range(CAPABILITIES):
            self.libc.prctl(DROP_BOUND, ctypes.c_ulong(one), 0, 0, 0)
        if self.libc.capset(struct.pack("=Ii", CAPABILITY_VERSION, 0), bytes(24)) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Limited:
    """Where the kernel has no cage for us: limits of the process, and nothing else."""

    had = (LIMITED,)
    rules = None

    def enter(self, limits: Limits, parent: int) -> None:
        limit(limits)


def cage(readable: Sequence[str], weaker: Iterable[str] = ()) -> Kept | Limited:
    """Once in a fork server, after its imports and before any thread: what each of its children will enter."""
    return Kept(readable, weaker) if sys.platform == "linux" else Limited()


def aside(end: int) -> int:
    """The same open file under a number that no child needs for its own."""
    import fcntl

    moved = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, ASIDE)
    os.close(end)
    return moved


def seccomp_there() -> bool:
    """The kernel says EFAULT for the missing filter if it knows filters, and EINVAL if not."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(SET_SECCOMP, ctypes.c_ulong(FILTER), None, 0, 0)
    return ctypes.get_errno() == 14


def limit(limits: Limits) -> None:
    """Of the process; the fork server itself looks at the clock, and these hold where it is kept from looking."""
    if sys.platform == "win32":
        return
    import resource

    seconds, memory = int(limits.cpu) + 1, int(limits.memory * 2**30)
    values = {
        "CPU": (seconds, seconds + 1), "AS": (memory, memory), "FSIZE": (0, 0), "NOFILE": (64, 64), "CORE": (0, 0),
        "MEMLOCK": (0, 0), "MSGQUEUE": (0, 0), "NPROC": (0, 0),
    }  # fmt: skip
    for name, (soft, hard) in values.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None:
            continue
        _, most = resource.getrlimit(number)
        below = most != resource.RLIM_INFINITY
        with suppress(ValueError, OSError):  # not every system has every limit
            resource.setrlimit(number, (min(soft, most) if below else soft, min(hard, most) if below else hard))


def readable(folders: Iterable[str]) -> list[str]:
    """What a caged process may read: the interpreter's own folders, the system's libraries, and these."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    own = [sysconfig.get_path(name) for name in names]
    packages = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    return list(dict.fromkeys(path for path in (*own, *packages, *SYSTEM, *folders) if path))


def environment() -> dict[str, str]:
    """Built from nothing: no key, no token and no proxy comes from the trainer's."""
    path = os.pathsep.join(folder for folder in sys.path if folder)
    fixed = {
        "PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": path, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    }  # fmt: skip
    kept = {name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | fixed
