"""What is true of an algorithm, found by running it: what it reads, what is global, what one update leaves inert."""

import inspect
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import wraps
from math import inf
from types import ModuleType
from typing import Any

import torch

from isentropic import distributed, reductions
from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.clipping.fixed import Fixed
from isentropic.algorithm.control.constant import Constant
from isentropic.algorithm.ratio.token import TokenRatio
from isentropic.algorithm.trace import trace
from isentropic.batch import PerToken, ScoredBatch, TokenStats, Vitals

PUSHES = ((1.0, 0.0), (0.0, 1.0))  # drives that wake what follows the controller


@dataclass(frozen=True)
class PartsInfo:
    """Parts are named as in a trace: clipping, credit stare."""

    reads: set[str]  # of batch, policy now and drive, by any part
    follows: set[str]  # parts that read the drive
    gradient: set[str]  # what the loss has a gradient in
    reductions: set[str]  # functions of reductions.py over all ranks that parts call
    inert: set[str]  # parts that change no gradient while every ratio is 1, and do change one later


def describe_parts(algorithm: Algorithm, batch: ScoredBatch, now: TokenStats) -> PartsInfo:
    """On one batch, under a controller that pushes, first up and then down; none of its settings are read."""
    reads: dict[str, set[str]] = {}
    gradient, reductions = set[str](), set[str]()
    for pushed in pushes(algorithm):
        with recorded() as calls:
            found = trace(pushed, batch, now, Vitals(1.0, 0.0))
        reductions |= calls
        for part, names in found.reads.items():
            reads.setdefault(part, set()).update(names)
        columns = {"now.logp": "gradient", "now.entropy": "gradient of entropy"}
        gradient |= {name for name, column in columns.items() if column in found.tokens and found.tokens[column].any()}
        gradient |= found.attached
    follows = {part for part, names in reads.items() if any(name.startswith("drive.") for name in names)}
    every = {name for names in reads.values() for name in names if not name.startswith("drive.")}
    return PartsInfo(every, follows, gradient, reductions, set(inert(algorithm, batch, now)))


def pushes(algorithm: Algorithm) -> Iterator[Algorithm]:
    """Copies under a constant push up, down or none, in place of a controller that remembers."""
    for up, down in PUSHES:
        yield replace(deepcopy(algorithm), control=Constant(up=up, down=down))


def inert(algorithm: Algorithm, batch: ScoredBatch, now: TokenStats) -> Iterator[str]:
    """Parts whose removal changes the gradient of `now`, but not that of a policy that has not moved since sampling."""
    policies = now, still(batch)
    whole = [slopes(algorithm, batch, policy) for policy in policies]
    for part, other in without(algorithm):
        moved, at_rest = (apart(own, slopes(other, batch, policy)) for own, policy in zip(whole, policies, strict=True))
        if moved and not at_rest:
            yield part


def without(algorithm: Algorithm) -> Iterator[tuple[str, Algorithm]]:
    """Each part in turn replaced by one that does nothing."""
    yield "ratio", replace(algorithm, ratio=TokenRatio())
    yield "clipping", replace(algorithm, clipping=Fixed(low=1.0, high=inf, ceiling=inf))
    for seam in ("credit", "penalty"):
        parts: dict[str, Any] = getattr(algorithm, seam)
        for name in parts:
            yield f"{seam} {name}", replace(algorithm, **{seam: {n: p for n, p in parts.items() if n != name}})


def still(batch: ScoredBatch) -> TokenStats:
    """The policy that sampled: every ratio is 1."""
    return TokenStats(batch.old_logp, batch.old_entropy, batch.old_sensitivity)


def differ(one: Algorithm, other: Algorithm, batch: ScoredBatch, now: TokenStats) -> bool:
    """Whether they give another gradient, under any controller that pushes."""
    return apart(slopes(one, batch, now), slopes(other, batch, now))


def apart(one: list[PerToken], other: list[PerToken]) -> bool:
    """Whether two lists of slopes are not the same, but for rounding."""
    return any(bool((a - b).abs().max() > 1e-9) for a, b in zip(one, other, strict=True))


def slopes(algorithm: Algorithm, batch: ScoredBatch, now: TokenStats) -> list[PerToken]:
    """By push, the gradient of the loss by each token's log-prob, 0 outside the mask; entropy 1 nat, progress 0."""
    traces = [trace(pushed, batch, now, Vitals(1.0, 0.0)) for pushed in pushes(algorithm)]
    return [torch.where(batch.mask, one.tokens["gradient"], 0) for one in traces]


@contextmanager
def recorded() -> Generator[set[str]]:
    """The functions of reductions.py that end in a collective and that parts call by themselves."""
    calls: set[str] = set()
    originals: list[tuple[ModuleType, str, Any]] = []
    for module in list(sys.modules.values()):
        if is_part(module):
            for name, value in vars(module).items():
                if function_called(name) is value and inspect.isfunction(value) and is_collective(value):
                    originals.append((module, name, value))
    for module, name, value in originals:
        setattr(module, name, noting(value, name, calls))
    try:
        yield calls
    finally:
        for module, name, value in originals:
            setattr(module, name, value)


def is_part(module: Any) -> bool:
    """One in a folder of parts, or its interface."""
    place = str(getattr(module, "__name__", "")).split(".")
    return place[:2] == ["isentropic", "algorithm"] and (
        len(place) > 3 or (len(place) > 2 and hasattr(module, "__path__"))
    )


def function_called(name: str) -> Any:
    """Of reductions.py or distributed.py by this name, or None."""
    return getattr(reductions, name, None) or getattr(distributed, name, None)


def is_collective(function: Callable[..., Any]) -> bool:
    """Whether its code, or that of a function of reductions.py that it names, speaks of the process group."""
    names = inspect.unwrap(function).__code__.co_names
    inner = (function_called(name) for name in names if name != function.__name__)
    return "dist" in names or any(inspect.isfunction(one) and is_collective(one) for one in inner)


def noting(function: Callable[..., Any], name: str, calls: set[str]) -> Callable[..., Any]:
    """The function itself, which adds its name to `calls` each time it runs."""

    @wraps(function)
    def noted(*arguments: Any, **settings: Any) -> Any:
        calls.add(name)
        return function(*arguments, **settings)

    return noted
