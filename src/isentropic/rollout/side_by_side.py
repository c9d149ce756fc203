"""Calls in threads, each with a limit of its own: what hangs is left behind, and the rest goes on without it."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Condition, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What a call gave; TimeoutError where it was given up on."""

    value: T | None
    error: BaseException | None
    seconds: float


def side_by_side(
    calls: Sequence[Callable[[], T]], limits: Sequence[float], workers: int, late: Callable[[T], object]
) -> list[Outcome[T]]:
    """One for each call, in order, whatever they raise; the time that a call waits for its thread is not counted.

    Python cannot end a thread: one that hangs stays until the process ends, which it does not hold up, and another
    takes its place. What it returns after all goes to `late`.
    """
    waiting = deque(range(len(calls)))
    running: dict[int, float] = {}
    found: dict[int, Outcome[T]] = {}
    changed = Condition()

    def work() -> None:
        while True:
            with changed:
                if not waiting:
                    return
                number = waiting.popleft()
                began = running[number] = time.monotonic()
                changed.notify()
            value, error = attempt(calls[number])
            with changed:
                given_up = running.pop(number, None) is None
                if not given_up:
                    found[number] = Outcome(value, error, time.monotonic() - began)
                    changed.notify()
            if given_up:
                if value is not None:
                    attempt(partial(late, value))
                return

    def start() -> None:
        Thread(target=work, daemon=True).start()

    for _ in range(min(workers, len(calls))):
        start()
    with changed:
        while len(found) < len(calls):
            now = time.monotonic()
            for number in [number for number, began in running.items() if now - began >= limits[number]]:
                seconds = now - running.pop(number)
                found[number] = Outcome(
                    None, TimeoutError(f"did not return within {limits[number]:g} seconds"), seconds
                )
                start()
            if len(found) < len(calls):
                ends = [began + limits[number] - now for number, began in running.items()]
                changed.wait(min(ends, default=None))
    return [found[number] for number in range(len(calls))]


def attempt(call: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    """A call's value or its error, of which one is None."""
    try:
        return call(), None
    except BaseException as error:
        return None, error
