"""Functions of one's own: found by a path, and called with what they ask for."""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from isentropic.task import Problem

Function = Callable[..., Any]


@cache
def function_at(path: str) -> Function:
    """`package.module.name`, or `folder/file.py:name`. Raises ValueError where there is no such function."""
    place, name = split(path)
    module = from_file(place, path) if place.endswith(".py") else from_package(place, path)
    found = getattr(module, name, None)
    if found is None:
        there = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
        raise ValueError(f"{path} does not exist: {place} has {', '.join(there) or 'no function'}")
    if not callable(found):
        raise ValueError(f"{path} is {found!r:.60}, which cannot be called; name a function")
    return found


def split(path: str) -> tuple[str, str]:
    """The module or file, and the name in it. Raises ValueError for a path that has not both."""
    place, _, name = path.rpartition(":") if ":" in path else path.rpartition(".")
    if not place or not name:
        raise ValueError(f"{path!r} is not the path of a function; write package.module.name or folder/file.py:name")
    return place, name


def from_package(name: str, path: str) -> ModuleType:
    """A module by its name, in the folder that the run was started in last.

    Raises ValueError if it cannot be imported.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(f"{path} cannot be imported ({' '.join(str(error).split())})") from error


def from_file(place: str, path: str) -> ModuleType:
    """A file run as a module, under a name that hides no other. Raises ValueError where there is no such file."""
    file = Path(place).expanduser().resolve()
    if not file.is_file():
        raise ValueError(f"{path} does not exist: {place} is not a file")
    spec = importlib.util.spec_from_file_location(f"reward_functions_{file.stem}", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked_for(function: Function, given: Mapping[str, Any]) -> dict[str, Any]:
    """Of all that could be given by name, what the function takes; everything, if it takes **kwargs."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(given)
    return {name: value for name, value in given.items() if name in parameters}


def check_arguments(path: str, names: Iterable[str], problem: Problem) -> None:
    """Raises ValueError for an argument without a default that neither we nor a column of the data gives."""
    known = {*names, *problem.columns}
    for name, parameter in inspect.signature(function_at(path)).parameters.items():
        needed = parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        if needed and name not in known:
            columns = ", ".join(map(str, problem.columns)) or "none"
            raise ValueError(f"{path} asks for {name}, which the data lacks; its columns are {columns}")
