"""What a fork server has loaded, in pages of 2 MiB: a fork copies the table of pages, and a child drops it again."""

import ctypes
from contextlib import suppress

COLLAPSE = 25  # Linux 6.1 and newer; elsewhere pages stay as they are
SIZE = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"


def merge() -> int:
    """Of this process's own memory, as much as the system merges; how many pages that makes."""
    merged = 0
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        with open(SIZE) as file:
            size = int(file.read())
        for start, end in own():
            for place in range(-(-start // size) * size, end - size + 1, size):
                merged += not libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), COLLAPSE)
    return merged


def own() -> list[tuple[int, int]]:
    """Where memory lies that is writable, private and of no file."""
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file]
    spans = [
        line[0].split("-") for line in lines if line[1] == "rw-p" and line[4] == "0" and line[5:] in ([], ["[heap]"])
    ]
    return [(int(start, 16), int(end, 16)) for start, end in spans]
