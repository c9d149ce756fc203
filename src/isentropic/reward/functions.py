"""Functions of one's own: found by a path, and called with what they ask for."""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import CellType, CodeType, ModuleType
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
    except (Exception, SystemExit) as error:  # whatever its code does
        raise ValueError(f"{path} cannot be imported ({why(error)})") from error


def from_file(place: str, path: str) -> ModuleType:
    """A file run as a module, under a name that hides no other. Raises ValueError where there is no such file."""
    file = Path(place).expanduser().resolve()
    if not file.is_file():
        raise ValueError(f"{path} does not exist: {place} is not a file")
    spec = importlib.util.spec_from_file_location(f"reward_functions_{file.stem}", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever its code does
        raise ValueError(f"{path} cannot be imported ({why(error)})") from error
    return module


def why(error: BaseException) -> str:
    """An error in a line."""
    said = " ".join(str(error).split())
    return said if isinstance(error, ImportError) else f"{type(error).__name__}: {said:.200}"


def asked_for(function: Function, given: Mapping[str, Any]) -> dict[str, Any]:
    """Of all that could be given by name, what the function takes; everything, if it takes **kwargs."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(given)
    named = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {name: value for name, value in given.items() if name in named}


def check_arguments(path: str, names: Iterable[str], problem: Problem) -> None:
    """Raises ValueError for an argument without a default that neither we nor a column of the data gives."""
    known, parameters = {*names, *problem.columns}, inspect.signature(function_at(path)).parameters.values()
    unnamed = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]
    named = [p for p in parameters if p.kind not in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
    if unnamed or not any(p.kind is p.VAR_KEYWORD or p.name in known for p in named):
        how = f"{', '.join(unnamed)} by position" if unnamed else "nothing by name that there is"
        raise ValueError(f"{path} takes {how}; it is called by the names of its arguments, as completions=...")
    for parameter in parameters:
        name = parameter.name
        needed = parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        if needed and name not in known:
            columns = ", ".join(map(str, problem.columns)) or "none"
            raise ValueError(f"{path} asks for {name}, which the data lacks; its columns are {columns}")


def kept_by(function: Function) -> dict[str, Any]:
    """What a function, or one of its module that it names, may have kept between calls: attributes, and what it closes
    over or names of the module's own lists, tables, numbers and generators."""
    found, todo = dict[str, Any](), [inspect.unwrap(function)]
    seen = set[Function]()
    while todo:
        one = todo.pop()
        if not inspect.isfunction(one) or one in seen:
            continue
        seen.add(one)
        found |= {f"{one.__name__}.{name}": value for name, value in vars(one).items() if name != "__wrapped__"}
        inner = zip(one.__code__.co_freevars, one.__closure__ or (), strict=True)
        named = {name: one.__globals__[name] for name in names_in(one.__code__) if name in one.__globals__}
        values = named | {name: cell.cell_contents for name, cell in inner if cell != CellType()}
        for name, value in values.items():
            if inspect.isfunction(value) and value.__module__ == one.__module__:
                todo.append(value)
            elif not inspect.ismodule(value) and not callable(value):
                found[name] = value
    return found


def names_in(code: CodeType) -> set[str]:
    """Also of the functions and comprehensions inside."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return {*code.co_names, *(name for one in inner for name in names_in(one))}
