"""The same work on many things, in as many processes as there are cores."""

import gc
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_all_start_methods, get_context
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

HELD: list[Any] = []  # work and items, for processes that are forked while they are in here


def spread(work: Callable[[Item], Result], items: Sequence[Item], chunk: int) -> list[Result]:
    """In the order of the items. Here, if they are no more than a chunk or processes cannot be forked.

    Work and items are inherited, whatever they are and hold; results are sent.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(cores, 8, -(-len(items) // chunk))
    if count < 2 or "fork" not in get_all_start_methods() or HELD:  # others would import everything anew
        return [work(item) for item in items]
    HELD[:] = [work, items]
    try:
        with unswept(), ProcessPoolExecutor(count, get_context("fork")) as pool:
            return list(pool.map(_at, range(len(items)), chunksize=chunk))
    finally:
        HELD.clear()


@contextmanager
def unswept() -> Generator[None]:
    """Without the garbage collector, which goes through all that is imported or read again and again for nothing."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _at(index: int) -> Any:
    work, items = HELD
    return work(items[index])
