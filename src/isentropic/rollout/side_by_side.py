"""Calls in threads, each with a limit of its own: what hangs is left behind, and the rest goes on without it."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from math import inf
from threading import TIMEOUT_MAX, Condition, Lock, Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class GivenUpError(TimeoutError):
    """Of a call that did not return in its time, and not of one that ran into a limit of its own."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What a call gave; GivenUpError where it was given up on."""

    value: T | None
    error: BaseException | None
    seconds: float  # that it took


@dataclass(eq=False)
class Call(Generic[T]):
    """One that waits for a thread, or has one."""

    run: Callable[[], T]
    limit: float  # seconds that it may take
    late: Callable[[T], object]
    outcome: "Future[Outcome[T]]" = field(default_factory=lambda: Future[Outcome[T]]())
    began: float = inf  # seconds of time.monotonic

    @property
    def ends(self) -> float:
        """When it is given up on, by the monotonic clock; never before it has begun."""
        return self.began + self.limit


class Threads:
    """At most so many at a time, in a `with`.

    Python cannot end a thread: one that hangs stays until the process ends, which it does not hold up, and another
    takes its place. What it returns after all goes to `late`.
    """

    def __init__(self, workers: int) -> None:
        self.free = workers  # threads that may yet be started
        self.idle = 0  # threads that wait for a call
        self.waiting: deque[Call[Any]] = deque()
        self.running: set[Call[Any]] = set()
        self.closed = False
        lock = Lock()
        self.called, self.timed = Condition(lock), Condition(lock)
        self.watched = inf  # when the watch looks next

    def __enter__(self) -> "Threads":
        Thread(target=self.watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.called:
            self.closed = True
            self.called.notify_all()
            self.timed.notify()

    def submit(
        self, run: Callable[[], T], limit: float, late: Callable[[T], object] = lambda _: None
    ) -> "Future[Outcome[T]]":
        """The limit is of the call itself; the time that it waits for a thread is not counted."""
        call = Call(run, limit, late)
        with self.called:
            self.waiting.append(call)
            if self.free and len(self.waiting) > self.idle:
                self.free -= 1
                Thread(target=self.work, daemon=True).start()
            self.called.notify()
        return call.outcome

    def work(self) -> None:
        """Call after call, in a thread of its own, until none can come; one that was given up on is the last."""
        while (call := self.next()) is not None:
            value, error = attempt(call.run)
            seconds = time.monotonic() - call.began
            with self.called:
                given_up = call not in self.running
                self.running.discard(call)
            if given_up:
                if value is not None:
                    attempt(partial(call.late, value))
                return
            call.outcome.set_result(Outcome(value, error, seconds))

    def next(self) -> Call[Any] | None:
        """Waits for a call, which then runs; None where no other can come."""
        with self.called:
            self.idle += 1
            while not self.waiting and not self.closed:
                self.called.wait()
            self.idle -= 1
            if not self.waiting:
                return None
            call = self.waiting.popleft()
            call.began = time.monotonic()
            self.running.add(call)
            if call.ends < self.watched:
                self.timed.notify()
        return call

    def watch(self) -> None:
        """Gives up on what has used up its limit."""
        while True:
            with self.timed:
                if self.closed and not self.running:
                    return
                now = time.monotonic()
                late = [call for call in self.running if now >= call.ends]
                self.running.difference_update(late)
                for _ in late:
                    Thread(target=self.work, daemon=True).start()
                if not late:
                    self.watched = min((call.ends for call in self.running), default=inf)
                    self.timed.wait(min(self.watched - now, TIMEOUT_MAX))
            for call in late:
                error = GivenUpError(f"did not return within {call.limit:g} seconds")
                call.outcome.set_result(Outcome(None, error, now - call.began))


def side_by_side(
    calls: Sequence[Callable[[], T]], limits: Sequence[float], workers: int, late: Callable[[T], object]
) -> list[Outcome[T]]:
    """One for each call, in order, whatever they raise."""
    with Threads(workers) as threads:
        begun = [threads.submit(call, limit, late) for call, limit in zip(calls, limits, strict=True)]
        return [future.result() for future in begun]


def after(first: "Future[T]", then: Callable[[T], U]) -> "Future[U]":
    """What `then` makes of a result, in the thread that brings it."""
    second: Future[U] = Future()

    def go(done: "Future[T]") -> None:
        try:
            second.set_result(then(done.result()))
        except BaseException as error:
            second.set_exception(error)

    first.add_done_callback(go)
    return second


def attempt(call: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    """A call's value or its error, of which one is None."""
    try:
        return call(), None
    except BaseException as error:
        return None, error
