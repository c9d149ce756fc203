"""Environments written for other libraries: found by name, and what their rewards say. None is imported here."""

import importlib
import importlib.util
import os
import sys
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from isentropic.task import Verdict


@lru_cache
def made_by(key: str, path: str) -> Any:
    """What makes an episode's object: package.module.Name, or folder/file.py:Name. Raises ValueError, one sentence."""
    place, _, name = path.rpartition(":" if ".py:" in path else ".")
    if not place or not name.isidentifier():
        raise ValueError(f"{key}={path} is neither package.module.Name nor folder/file.py:Name")
    try:
        module = loaded(Path(place).expanduser()) if place.endswith(".py") else imported(place)
    except Exception as error:  # whatever a module does when it is imported
        raise ValueError(f"{key}={path} cannot be imported: {type(error).__name__}: {error}") from error
    made = getattr(module, name, None)
    if not callable(made):
        raise ValueError(f"{key}={path}: {place} has no class or function {name}")
    return made


def imported(name: str) -> Any:
    """The folder that the run was started in is looked through last."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return importlib.import_module(name)


def loaded(file: Path) -> Any:
    """A file run as a module. Raises FileNotFoundError where there is none."""
    spec = importlib.util.spec_from_file_location(f"environments_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FileNotFoundError(f"{file} is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verdict_of(reward: Any, solved: float) -> Verdict:
    """Raises ValueError for a reward that is no finite number."""
    value = float("nan") if reward is None else float(reward)
    if not isfinite(value):
        raise ValueError(f"the environment gave a reward of {reward!r}, which is no finite number")
    return Verdict(value, value >= solved, "right" if value >= solved else "wrong")
