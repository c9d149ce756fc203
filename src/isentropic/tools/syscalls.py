"""System calls that a caged process may make, as a seccomp filter: what computes and reads, and nothing that acts.

A list of what is allowed, since kernels grow: what is on no list fails with EPERM, also calls that do not exist yet.
"""

import ctypes
import errno
import struct
from collections.abc import Iterable, Sequence

# name: (x86_64, aarch64); None where a machine does not have it
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # what is open already
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "pread64": (17, 67),
    "readv": (19, 65), "writev": (20, 66), "preadv": (295, 69), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "pipe": (22, None), "pipe2": (293, 59), "close_range": (436, 436), "fadvise64": (221, 223), "poll": (7, None),
    "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19),
    # files by name; what may be read is Landlock's and the namespaces' concern
    "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78),
    "getdents64": (217, 61), "getcwd": (79, 17),
    # memory
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "msync": (26, 227), "mincore": (27, 232), "madvise": (28, 233), "membarrier": (324, 283),
    # its own signals, threads and end
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133), "pause": (34, None),
    "setitimer": (38, 103), "getitimer": (36, 102), "alarm": (37, None), "futex": (202, 98), "rseq": (334, 293),
    "set_robust_list": (273, 99), "get_robust_list": (274, 100), "set_tid_address": (218, 96), "sched_yield": (24, 124),
    "restart_syscall": (219, 128), "exit": (60, 93), "exit_group": (231, 94), "wait4": (61, 260), "waitid": (247, 95),
    # time and chance
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrusage": (98, 165),
    "getrandom": (318, 278),
    # who am I
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getpgrp": (111, None), "getpgid": (121, 155),
    "getsid": (124, 156), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getresuid": (118, 148), "getresgid": (120, 150), "getgroups": (115, 158), "capget": (125, 90), "uname": (63, 160),
    "sysinfo": (99, 179), "getcpu": (309, 168), "getrlimit": (97, 163), "sched_getaffinity": (204, 123),
    "sched_getparam": (143, 121), "sched_getscheduler": (145, 120), "getpriority": (140, 141),
}  # fmt: skip
CLONE3 = (435, 435)
CLONE, PRCTL, PRLIMIT, FCNTL, IOCTL = (56, 220), (157, 167), (302, 261), (72, 25), (16, 29)
OPEN, OPENAT = (2, None), (257, 56)

THREAD = 0x10000  # CLONE_THREAD
WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20000000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE
# Names of threads and of memory, and questions: neither PR_SET_PDEATHSIG nor PR_SET_DUMPABLE.
PRCTLS = (2, 3, 15, 16, 21, 23, 39, 0x53564D41)
FCNTLS = (0, 1, 2, 3, 4, 1030)  # duplicates and flags; an owner (8, 15) would be sent signals
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # is it a terminal, how much is there, close on exec

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
X32 = 0x40000000

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL_PROCESS, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE = 0, 4  # offsets in what the kernel shows a filter
REFUSE = FAIL | errno.EPERM

Step = tuple[int, int, int, int]


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def step(code: int, value: int, yes: int = 0, no: int = 0) -> Step:
    return code, yes, no, value


def argument(index: int, high: bool = False) -> Step:
    return step(LOAD, 16 + 8 * index + 4 * high)  # both machines are little-endian


def when(number: int | None, then: Sequence[Step]) -> list[Step]:
    """`then` must return in all cases: it replaces the number by what it looks at."""
    return [] if number is None else [step(EQUAL, number, 0, len(then)), *then]


def one_of(index: int, values: Iterable[int]) -> list[Step]:
    chosen = [part for value in values for part in (step(EQUAL, value, 0, 1), step(RETURN, ALLOW))]
    return [argument(index), *chosen, step(RETURN, REFUSE)]


def bits(index: int, mask: int, some: int, none: int) -> list[Step]:
    return [argument(index), step(ANY_BIT, mask, 0, 1), step(RETURN, some), step(RETURN, none)]


def zero(*halves: Step) -> list[Step]:
    checks = [part for half in halves for part in (half, step(EQUAL, 0, 1, 0), step(RETURN, REFUSE))]
    return [*checks, step(RETURN, ALLOW)]


def filter_of(machine: str) -> bytes:
    """The filter's steps. Raises KeyError for a machine whose numbers are not known."""
    at, architecture = MACHINES[machine]
    steps = [step(LOAD, ARCHITECTURE), step(EQUAL, architecture, 1, 0), step(RETURN, KILL_PROCESS), step(LOAD, NUMBER)]
    if machine == "x86_64":
        steps += [step(AT_LEAST, X32, 0, 1), step(RETURN, KILL_PROCESS)]
    for numbers in ALLOWED.values():
        steps += when(numbers[at], [step(RETURN, ALLOW)])
    steps += when(CLONE3[at], [step(RETURN, FAIL | errno.ENOSYS)])  # its flags lie in memory; libc then uses clone
    steps += when(CLONE[at], bits(0, THREAD, ALLOW, REFUSE))
    steps += when(OPEN[at], bits(1, WRITING, REFUSE, ALLOW))
    steps += when(OPENAT[at], bits(2, WRITING, REFUSE, ALLOW))
    steps += when(PRLIMIT[at], zero(argument(0), argument(2), argument(2, high=True)))  # only asks, about itself
    for numbers, index, values in ((PRCTL, 0, PRCTLS), (FCNTL, 1, FCNTLS), (IOCTL, 1, IOCTLS)):
        steps += when(numbers[at], one_of(index, values))
    steps.append(step(RETURN, REFUSE))
    return b"".join(struct.pack("HBBI", *one) for one in steps)


def program(steps: bytes) -> tuple[Program, ctypes.Array[ctypes.c_char]]:
    """What the kernel takes, and the memory that it points to, which must live as long."""
    memory = ctypes.create_string_buffer(steps, len(steps))
    return Program(len(steps) // 8, ctypes.addressof(memory)), memory
