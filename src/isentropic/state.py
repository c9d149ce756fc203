"""What parts remember: saved with the checkpoint, restored from it, and refused where it would be forgotten."""

import pickle
import random
import sys
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any, Protocol, TypeGuard, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from isentropic.distributed import gather_objects, rank, world_size

PLAIN = (type(None), bool, int, float, str, bytes)
OPAQUE = ("isentropic.tools.", "isentropic.task.judge_pool")  # processes and pipes, which nobody means to save
EMPTY = "lightning.pytorch.callbacks.callback"  # whose state_dict every callback has that brings none
KEPT = (list, dict, set, Tensor, np.ndarray)  # of what a class holds, what may change


class StateError(ValueError):
    """What a part remembers cannot be saved or restored; one sentence with the part."""


def seed_shared(*numbers: int, aside: bool = False) -> None:
    """The generators of Python, numpy and torch that all code shares, so that no draw depends on those of before.

    Not torch's `aside` of an update, which draws from it.
    """
    seed = hash(numbers) & 0x7FFFFFFF
    random.seed(seed)
    np.random.seed(seed)
    if not aside:
        torch.manual_seed(seed)


@contextmanager
def drawing_apart(watched: bool) -> Generator[None]:
    """Raises StateError for what draws from torch's shared generator, where it is to do so beside an update."""
    before = torch.get_rng_state() if watched else None
    yield
    if before is not None and not before.equal(torch.get_rng_state()):
        raise StateError(
            "a reward draws from the generator of torch that all code shares, and with "
            "rollout.one_step_off_policy=true it does so during an update; give it a generator of its own, seeded by "
            "the answer's step, or take rollout.one_step_off_policy=false"
        )


@runtime_checkable
class Stateful(Protocol):
    def state_dict(self) -> Mapping[str, Any]: ...
    def load_state_dict(self, state: Any) -> None: ...


class Memory:
    """Of some parts by their dotted names, each rank its own. Others are saved `apart`, and only checked here."""

    def __init__(self, parts: Mapping[str, object], apart: Mapping[str, object] | None = None) -> None:
        self.parts, self.apart = dict(parts), dict(apart or {})
        self.start = {name: picture(part) for name, part in (self.parts | self.apart).items()}

    def check(self) -> None:
        """Raises StateError for a part with a field that has changed and is in no state_dict."""
        for sentence in self.forgotten():
            raise StateError(sentence)

    def forgotten(self) -> Iterator[str]:
        """What would be, in a sentence each."""
        for name, part in (self.parts | self.apart).items():
            known = saved_fields(part)
            if known is None:
                continue
            now, before = picture(part), self.start[name]
            for field in now.keys() | before.keys():
                if field not in known and now.get(field) != before.get(field):
                    yield (
                        f"{name}: {type(part).__name__}.{field} has changed during the run and would be forgotten by a "
                        f"checkpoint; give {type(part).__name__} state_dict and load_state_dict with it, or with an "
                        "empty dict if it may be forgotten"
                    )

    def snapshot(self) -> dict[str, Any]:
        """This rank's states; parts without any are left out."""
        states: dict[str, Any] = {}
        for name, part in self.parts.items():
            if is_stateful(part):
                state = dict(part.state_dict())
                check_plain(state, f"{name}: {type(part).__name__}.state_dict")
                states |= {name: deepcopy(state)} if state else {}
        return states

    def state_dict(self, snapshot: dict[str, Any] | None = None) -> dict[str, list[Any]]:
        """Of each part the states of all ranks, or the one that all share. All ranks must call."""
        if not any(is_stateful(part) for part in self.parts.values()):
            return {}
        ranks = gather_objects(self.snapshot() if snapshot is None else snapshot)
        names = dict.fromkeys(name for states in ranks for name in states)
        found = {name: [states.get(name, {}) for states in ranks] for name in names}
        same = {name: all(print_of(s) == print_of(states[0]) for s in states) for name, states in found.items()}
        return {name: states[:1] if same[name] else states for name, states in found.items()}

    def load_state_dict(self, states: Mapping[str, list[Any]]) -> None:
        """Raises StateError where the checkpoint knows nothing of a part, or is of another number of ranks."""
        for name, part in self.parts.items():
            if not is_stateful(part):
                continue
            if name not in states:
                if part.state_dict():
                    raise StateError(
                        f"the checkpoint has no memory of {name} ({type(part).__name__}), which goes on from what it "
                        "remembers; resume with the parts that wrote the checkpoint"
                    )
                continue
            by_rank = states[name]
            if len(by_rank) > 1 and len(by_rank) != world_size():
                raise StateError(
                    f"the checkpoint has the memory of {name} on {len(by_rank)} ranks; resume with as many"
                )
            part.load_state_dict(deepcopy(by_rank[rank() if len(by_rank) > 1 else 0]))


def is_stateful(part: object) -> TypeGuard[Stateful]:
    return isinstance(part, Stateful)


def saved_fields(part: object) -> set[str] | None:
    """Fields that a part saves; None for one that decides that itself, in a state_dict of its own."""
    if not is_stateful(part) or type(part).state_dict.__module__ == EMPTY:
        return set()
    ours = type(part).state_dict.__module__.startswith("isentropic.")  # which saves the fields that are no settings
    return set(part.state_dict()) if ours else None


def picture(part: object) -> dict[str, Any]:
    """Of each field what tells whether it has changed; what a class holds for all its parts too."""
    fields: dict[str, Any] = {}
    for kind in reversed(type(part).__mro__):
        if kind.__module__.partition(".")[0] not in sys.stdlib_module_names:
            fields |= {n: v for n, v in vars(kind).items() if isinstance(v, KEPT) and not n.startswith(("__", "_abc"))}
    return {name: print_of(value) for name, value in (fields | fields_of(part)).items()}


def fields_of(thing: object) -> dict[str, Any]:
    """Without what was only computed once and can be again."""
    computed = {n for kind in type(thing).__mro__ for n, v in vars(kind).items() if isinstance(v, cached_property)}
    slots = [n for kind in type(thing).__mro__ for n in one_or_many(vars(kind).get("__slots__", ()))]
    found = {name: getattr(thing, name) for name in slots if hasattr(thing, name)} | getattr(thing, "__dict__", {})
    return {name: value for name, value in found.items() if name not in computed and not name.startswith("__")}


def one_or_many(names: str | Sequence[str]) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names


def print_of(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Equal for equal content. What holds itself, and what nobody means to save, is told by its type."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, (*PLAIN, complex)):
        return kind, repr(value)
    if isinstance(value, Tensor):
        return print_of(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()), str(value.dtype)
    if isinstance(value, np.ndarray):
        return kind, value.shape, str(value.dtype), blake2b(np.ascontiguousarray(value).tobytes()).digest()
    if isinstance(value, torch.Generator):
        return print_of(value.get_state())
    if id(value) in above or isinstance(value, type) or (callable(value) and not hasattr(value, "__dict__")):
        return kind
    above = (*above, id(value))
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return kind, tuple((print_of(k, above), print_of(v, above)) for k, v in items)
    if isinstance(value, Set):
        return kind, tuple(sorted(repr(print_of(one, above)) for one in cast(Set[Any], value)))
    if isinstance(value, Sequence) or type(value).__name__ == "deque":
        return kind, tuple(print_of(one, above) for one in cast(Sequence[Any], value))
    if is_opaque(value) or isinstance(value, random.Random) or kind.startswith("numpy."):
        return kind, pickled(value)
    return kind, tuple((name, print_of(one, above)) for name, one in sorted(fields_of(value).items()))


def pickled(value: Any) -> bytes | None:
    """Of what of Python's own and numpy's keeps its content out of sight, as generators and numbers do; None for what
    has none to be saved, as locks and processes."""
    if type(value).__module__.startswith(OPAQUE):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some of Python's own say that they will not be copied for ever
            return blake2b(pickle.dumps(value)).digest()
    except Exception:  # whatever an object of a foreign kind raises
        return None


def is_opaque(value: Any) -> bool:
    module = type(value).__module__
    of_python = module.partition(".")[0] in sys.stdlib_module_names and not isinstance(value, SimpleNamespace)
    return of_python or module.startswith(OPAQUE)


def check_plain(value: Any, where: str) -> None:
    """Raises StateError for what a checkpoint, which runs no code when it is read, cannot hold."""
    if isinstance(value, (*PLAIN, Tensor)):
        return
    if type(value) in (list, tuple, set):
        for one in value:
            check_plain(one, where)
    elif type(value) is dict:
        for name, one in cast(dict[Any, Any], value).items():
            check_plain(name, where)
            check_plain(one, f"{where}()[{name!r}]")
    else:
        raise StateError(
            f"{where} is {value!r:.60}, a {type(value).__name__}; a checkpoint holds numbers, texts, tensors, and "
            "lists and dicts of them"
        )
