"""How long the parts of a training step take, without waiting for the GPU in between."""

from collections.abc import Callable
from functools import wraps
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


class Clock:
    """On CUDA the marks are events of its stream, so they are read once all work before them is done."""

    def __init__(self) -> None:
        self.spans: dict[str, list[tuple[Any, Any]]] = {}

    def seconds(self) -> dict[str, float]:
        """Since this was last asked, by part. On CUDA only after a synchronisation."""
        found = {name: sum(between(*span) for span in spans) for name, spans in self.spans.items()}
        self.spans = {}
        return found


def timed(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A method whose time the `clock` of its object, which has a `device`, keeps under this name."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        @wraps(method)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            owner: Any = args[0]
            start = mark(owner.device)
            result = method(*args, **kwargs)
            owner.clock.spans.setdefault(name, []).append((start, mark(owner.device)))
            return result

        return run

    return decorate


def mark(device: torch.device) -> Any:
    """A moment on this device: a CUDA event, which waits for nothing, or the clock's seconds."""
    if device.type != "cuda":
        return perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event


def between(start: Any, end: Any) -> float:
    """Seconds; for CUDA events, of work that is done."""
    return end - start if isinstance(start, float) else start.elapsed_time(end) / 1000
