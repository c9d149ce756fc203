"""What the constructors of parts refuse of plain values, said before any part is imported: their own checks are run.

Of a constructor's source those statements are run that only look at its arguments and raise, up to the first that does
more. One that needs what is not there, such as a part or a function of ours, is left to the constructor.
"""

import ast
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any

from isentropic.config.build import RESERVED, bad_input, holds_parts, is_dict, is_list
from isentropic.config.signatures import Defined, Untold, find, names_of, resolved

LOOKS = ast.If, ast.For, ast.Raise, ast.Pass, ast.Continue


def check_bounds(settings: Any, key: str = "") -> None:
    """Of every part below. Raises BadInput with the sentence of the constructor that refuses."""
    if is_list(settings):
        for index, value in enumerate(settings):
            check_bounds(value, f"{key}[{index}]")
    elif is_dict(settings):
        for name, value in settings.items():
            check_bounds(value, f"{key}.{name}".strip("."))
        if "_target_" in settings and not settings.get("_partial_"):
            with bad_input(key):
                construct(settings["_target_"], settings)


def construct(path: str, settings: Mapping[str, Any]) -> None:
    """Raises the ValueError that the constructor would raise, as far as its source tells."""
    given = {name: value for name, value in settings.items() if name not in RESERVED and not holds_parts([value])}
    try:
        module, values, statements = checks_of(path)
    except (Untold, LookupError):
        return
    scope = {**given, "self": SimpleNamespace(**(values | given))}
    for statement in statements:
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        scope |= {name: value for name in names - scope.keys() for value in known(module, name)}
        try:
            exec(compile(ast.Module([statement], []), f"<{path}>", "exec"), scope)
        except ValueError:
            raise
        except Exception:  # of a statement that needs more than there is
            continue


@cache
def checks_of(path: str) -> tuple[str, dict[str, Any], list[ast.stmt]]:
    """Module, defaults of fields, and the statements. Raises Untold and LookupError."""
    found = find(path)
    if not isinstance(found, Defined) or not isinstance(found.node, ast.ClassDef):
        raise Untold(path)
    defaults: dict[str, Any] = {}
    while True:
        methods = {one.name: one for one in found.node.body if isinstance(one, ast.FunctionDef)}
        defaults = fields(found.node) | defaults
        if method := methods.get("__init__") or methods.get("__post_init__"):
            return found.module, defaults, list(leading(method))
        bases = [resolved(base, found.module) for base in found.node.bases]
        found = next((one for one in bases if isinstance(one, Defined)), None)
        if found is None or not isinstance(found.node, ast.ClassDef):
            raise Untold(path)


def leading(method: ast.FunctionDef) -> Iterator[ast.stmt]:
    for statement in method.body:
        if isinstance(statement, ast.Expr):  # a docstring, or a check in a function of its own
            continue
        if not only_looks(statement):
            return
        yield statement


def only_looks(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Name) for target in statement.targets)
    inner = [one for one in ast.iter_child_nodes(statement) if isinstance(one, ast.stmt)]
    return isinstance(statement, LOOKS) and all(map(only_looks, inner))


def fields(node: ast.ClassDef) -> dict[str, Any]:
    """Values that stand in the class itself."""
    found: dict[str, Any] = {}
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None:
            with suppress(ValueError):
                found[one.target.id] = ast.literal_eval(one.value)
    return found


@cache
def known(module: str, name: str) -> list[Any]:
    """What a name of a module is, if that is a literal or of `math`: nothing here looks at files."""
    with suppress(Untold, LookupError, ValueError):
        node = names_of(module).get(name)
        if node == "math":
            return [math]
        if isinstance(node, str):
            return [getattr(math, node.removeprefix("math."))] if node.startswith("math.") else []
        if isinstance(node, ast.expr):
            return [ast.literal_eval(node)]
    return []
