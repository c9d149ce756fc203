"""A package that others import and seldom use: it is loaded when something in it is asked for."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class Later(ModuleType):
    """In the place of a package, for whoever has imported it so."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or (loaded := import_module(self.__name__)) is self:
            raise AttributeError(f"{self.__name__} is not loaded yet and has no {name}")
        return getattr(loaded, name)


@contextmanager
def later(package: str, **known: Any) -> Generator[None]:
    """What is imported inside gets the package later, unless it is there already, and what is `known` of it at once."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = Later(package)
    vars(sys.modules[package]).update(known)
    try:
        yield
    finally:
        del sys.modules[package]
