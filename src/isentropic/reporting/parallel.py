"""The same work on many things, in as many processes as there are cores."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(work: Callable[[Item], Result], items: Sequence[Item], chunk: int) -> list[Result]:
    """In the order of the items. Here, if they are no more than a chunk or processes cannot be forked."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(cores, 8, -(-len(items) // chunk))
    if count < 2 or "fork" not in get_all_start_methods():  # others would import everything anew
        return [work(item) for item in items]
    with ProcessPoolExecutor(count, get_context("fork")) as pool:
        return list(pool.map(work, items, chunksize=chunk))
