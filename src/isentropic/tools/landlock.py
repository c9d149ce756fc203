"""Landlock: the kernel's own way for a process to give up files, TCP, and signals to others. Linux 5.13 and newer."""

import ctypes
import os
import struct
from collections.abc import Iterable

CREATE, ADD, RESTRICT = 444, 445, 446  # system calls, the same on all machines
VERSION, BENEATH = 1, 1
READ_FILE, READ_DIR = 1 << 2, 1 << 3
FILES = {1: 13, 2: 14, 3: 15, 5: 16}  # from this version on, so many rights over files are known
TCP_FROM, SCOPES_FROM = 4, 6
TCP, SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals

libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """0 where the kernel has none of it, or was started without."""
    return max(0, libc.syscall(CREATE, None, ctypes.c_size_t(0), VERSION))


def ruleset(readable: Iterable[str]) -> int:
    """A descriptor of rules by which only these files and folders can be read, and nothing written."""
    had = version()
    files = (1 << max(rights for since, rights in FILES.items() if since <= had)) - 1
    words = [files, *([TCP] if had >= TCP_FROM else []), *([SCOPES] if had >= SCOPES_FROM else [])]
    wanted = struct.pack(f"{len(words)}Q", *words)
    rules = called(libc.syscall(CREATE, wanted, ctypes.c_size_t(len(wanted)), 0))
    for path in readable:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what is not there need not be read
        rights = READ_FILE | (READ_DIR if os.path.isdir(path) else 0)
        called(libc.syscall(ADD, rules, BENEATH, struct.pack("=Qi", rights, place), 0))
        os.close(place)
    return rules


def restrict(rules: int) -> None:
    """For good, and for this process alone; it must have given up new privileges."""
    called(libc.syscall(RESTRICT, rules, 0))


def called(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
