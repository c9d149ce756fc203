"""A process's own view of files, processes and networks, without root where the kernel lets users make one."""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

USER, MOUNT, PROCESSES, NETWORK, IPC = 0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000
BIND, RECURSIVE, PRIVATE, DETACH = 0x1000, 0x4000, 0x40000, 2
NOSUID, NODEV = 2, 4
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
ROOT = "/tmp"  # where the new root is mounted before it is one; what is there stays as it is
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG

libc = ctypes.CDLL(None, use_errno=True)


def isolate(readable: Sequence[str]) -> bool:
    """Goes on as the first process of namespaces of its own, in which only these paths exist; False where it may not.

    The process that called waits for it, and ends with it. Call it before any thread is started.
    """
    if os.uname().machine not in PIVOT_ROOT or not tried(readable):
        return False
    sys.stdout.flush()
    separate(readable)
    parent = os.getpid()
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    libc.prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() not in (0, parent):
        os._exit(1)  # it died before the line above
    return True


def tried(readable: Sequence[str]) -> bool:
    """In a process of its own, since what fails half-way cannot be taken back."""
    child = os.fork()
    if not child:
        code = 1
        with suppress(BaseException):
            separate(readable)
            child = os.fork()
            if not child:
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def separate(readable: Sequence[str]) -> None:
    """New namespaces, of processes for children alone. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    check(libc.unshare(USER | MOUNT | PROCESSES | NETWORK | IPC))
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)
    check(libc.mount(None, b"/", None, RECURSIVE | PRIVATE, None))
    places = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in outermost(readable)]
    check(libc.mount(b"cage", ROOT.encode(), b"tmpfs", NOSUID | NODEV, b"size=64k,mode=755"))
    for path, place in places:
        inside = ROOT + path
        if os.path.isdir(f"/proc/self/fd/{place}"):
            os.makedirs(inside, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(inside), exist_ok=True)
            os.close(os.open(inside, os.O_CREAT | os.O_WRONLY, 0o444))
        check(libc.mount(f"/proc/self/fd/{place}".encode(), inside.encode(), None, BIND | RECURSIVE, None))
        os.close(place)
    os.chdir(ROOT)
    check(libc.syscall(PIVOT_ROOT[os.uname().machine], b".", b"."))
    check(libc.umount2(b".", DETACH))
    os.chdir("/")


def outermost(paths: Sequence[str]) -> list[str]:
    """Those that exist and lie in no other, as they are called and as they are: a link may lead out of what is kept."""
    there = {name for path in paths if os.path.exists(path) for name in (os.path.abspath(path), os.path.realpath(path))}
    found: list[str] = []
    for path in sorted(there):
        if not any(path.startswith(f"{other}/") for other in found):
            found.append(path)
    return found


def check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
