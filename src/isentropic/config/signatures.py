"""What a part can be given, read from its source: which settings, of which types. Imports none of what it reads.

    signature = read("isentropic.task.countdown.Countdown")     # None where the source does not tell
    signature.names, signature.hint("numbers")                  # int

Classes in hints are stand-ins that know their name and what they are based on, so that `isinstance` and `issubclass`
answer as for the classes themselves. A hint that the source does not tell is `Any`.
"""

import ast
import builtins
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import InitVar, dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol, is_typeddict

Function = ast.FunctionDef | ast.AsyncFunctionDef
UNTOLD: set[type] = set()  # stand-ins that may be based on more than is known of them


@dataclass(frozen=True)
class Signature:
    names: list[str]
    open_ended: bool  # takes other names too
    hint: Callable[[str], Any]  # of a name
    made: Any  # the class that a call makes; None for what a function returns


@dataclass(frozen=True)
class Defined:
    """A class or function as it stands in a module."""

    module: str
    node: ast.ClassDef | Function | ast.expr


class Untold(Exception):
    """The source does not tell, or not in a way that is read here."""


def read(path: str) -> Signature | None:
    """Raises LookupError if there is no such class or function."""
    try:
        found = find(path)
        if not isinstance(found, Defined):
            return None
        fields, open_ended = _fields(found)
        made = _stand_in(found) if isinstance(found.node, ast.ClassDef) else None
        return Signature(list(fields), open_ended, lambda name: _decided(fields.get(name)), made)
    except Untold:
        return None


def find(path: str) -> Any:
    """A definition, or the object itself where the standard library has it. Raises Untold and LookupError."""
    module, _, name = path.rpartition(".")
    if module.partition(".")[0] in (*sys.stdlib_module_names, "typing_extensions"):
        with suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(module), name)
        raise LookupError(path)
    return _in_module(module, name)


def _in_module(module: str, name: str) -> Any:
    names = names_of(module)
    if name not in names:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        if "*" in names or "__getattr__" in names:
            raise Untold(f"{module}.{name}")
        if _spec(f"{module}.{name}") is not None:
            raise Untold(f"{module}.{name} is a module")
        raise LookupError(f"{module}.{name}")
    node = names[name]
    return find(node) if isinstance(node, str) else Defined(module, node)


@cache
def names_of(module: str) -> dict[str, "ast.ClassDef | Function | ast.expr | str"]:
    """What a module defines, and the dotted paths of what it imports. Raises LookupError and Untold."""
    spec = _spec(module)
    if spec is None:
        raise LookupError(module)
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise Untold(module)
    package = module if spec.submodule_search_locations is not None else module.rpartition(".")[0]
    names: dict[str, ast.ClassDef | Function | ast.expr | str] = {}
    for node in _statements(ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names[node.name] = node
            case ast.ImportFrom():
                base = package.rsplit(".", node.level - 1)[0] if node.level else ""
                source = ".".join(part for part in (base, node.module) if part)
                names |= {one.asname or one.name: f"{source}.{one.name}" for one in node.names}
            case ast.Import():
                names |= {one.asname: one.name for one in node.names if one.asname}
                names |= {top: top for one in node.names if not one.asname for top in [one.name.partition(".")[0]]}
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                names[name] = value
            case _:
                if sys.version_info >= (3, 12) and isinstance(node, ast.TypeAlias):
                    names[node.name.id] = node.value
    return names


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _statements([*node.body, *node.orelse])
        else:
            yield node


@cache
def _spec(module: str) -> ModuleSpec | None:
    if module in sys.modules:
        return sys.modules[module].__spec__
    parent = module.rpartition(".")[0]
    if not parent:
        return find_spec(module)
    above = _spec(parent)
    if above is None or above.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(module, list(above.submodule_search_locations))


def _fields(found: Defined) -> tuple[dict[str, Any], bool]:
    """Of each argument its module and annotation; and whether others are taken."""
    match found.node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _arguments(found.node, found.module, skip=0)
        case ast.ClassDef() as node:
            return _constructor(node, found.module)
        case _:
            raise Untold(found.module)


def _constructor(node: ast.ClassDef, module: str) -> tuple[dict[str, Any], bool]:
    methods = {one.name: one for one in node.body if isinstance(one, Function)}
    decorators = {_name(decorator) for decorator in node.decorator_list}
    if "__new__" in methods or decorators - {"dataclass"}:
        raise Untold(node.name)
    if "__init__" in methods:
        return _arguments(methods["__init__"], module, skip=1)
    bases = [resolved(base, module) for base in node.bases]
    if decorators:
        fields: dict[str, Any] = {}
        for base in reversed(bases):
            if isinstance(base, Defined) and isinstance(base.node, ast.ClassDef) and base.node.decorator_list:
                fields |= _constructor(base.node, base.module)[0]
        return fields | _own_fields(node, module), any(base is None for base in bases)
    for base in bases:
        if not isinstance(base, Defined) or not isinstance(base.node, ast.ClassDef):
            if _is_plain(base):
                continue
            raise Untold(node.name)
        return _constructor(base.node, base.module)
    return {}, False


def _is_plain(base: Any) -> bool:
    """A base of the standard library that takes no arguments of its own."""
    return base is Protocol or (isinstance(base, type) and base.__init__ is object.__init__)


def _own_fields(node: ast.ClassDef, module: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and _name(one.annotation) != "ClassVar":
            unset = isinstance(one.value, ast.Call) and any(
                word.arg == "init" and isinstance(word.value, ast.Constant) and not word.value.value
                for word in one.value.keywords
            )
            if not unset:
                fields[one.target.id] = (module, one.annotation)
    return fields


def _arguments(node: Function, module: str, skip: int) -> tuple[dict[str, Any], bool]:
    given = [*node.args.args[max(0, skip - len(node.args.posonlyargs)) :], *node.args.kwonlyargs]
    return {one.arg: (module, one.annotation) for one in given}, node.args.kwarg is not None


def _name(node: ast.expr) -> str:
    """Of a decorator or annotation, without what it is given."""
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _name(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def resolved(node: ast.expr, module: str) -> Any:
    """What a name stands for, a subscript taken off; None if that is not told."""
    with suppress(Untold, LookupError):
        return _look_up(node.value if isinstance(node, ast.Subscript) else node, module)
    return None


def _look_up(node: ast.expr, module: str) -> Any:
    match node:
        case ast.Name(id=name):
            return _in_module(module, name)
        case ast.Attribute(value=ast.Name(id=top), attr=name):
            origin = names_of(module).get(top)
            if isinstance(origin, str):
                return find(f"{origin}.{name}")
        case _:
            pass
    raise Untold(ast.dump(node))


@cache
def _class(module: str, name: str) -> type:
    found = _in_module(module, name)
    bases = [resolved(base, module) for base in found.node.bases]
    known = [_stand_in(base) for base in bases if isinstance(base, Defined) and isinstance(base.node, ast.ClassDef)]
    made = type(name, tuple(dict.fromkeys(known)), {"__module__": module})
    told = len(known) + sum(_is_plain(base) for base in bases) == len(bases)
    if any(is_typeddict(base) or getattr(base, "__name__", "") in ("TypedDict", "NamedTuple") for base in bases):
        raise Untold(name)
    if not told or Protocol in bases or UNTOLD & set(known):
        UNTOLD.add(made)
    return made


def _stand_in(found: Defined) -> type:
    assert isinstance(found.node, ast.ClassDef)
    return _class(found.module, found.node.name)


def _decided(field: tuple[str, ast.expr | None] | None) -> Any:
    if field is None or field[1] is None:
        return Any
    try:
        return _hint(field[1], field[0])
    except (Untold, LookupError, TypeError, SyntaxError):
        return Any


def _hint(node: ast.expr, module: str) -> Any:
    """The type that an annotation is. Raises Untold, LookupError, and TypeError for what is no type."""
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str(text)):
            return _hint(ast.parse(text, mode="eval").body, module)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _hint(left, module) | _hint(right, module)
        case ast.Subscript(value=value, slice=inner):
            if _name(value) == "Literal":
                return _look_up(value, module)[ast.literal_eval(inner)]
            outer = _hint(value, module)
            if outer in (ClassVar, InitVar):
                return _hint(inner, module)
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            ellipsis = [isinstance(one, ast.Constant) and one.value is ... for one in parts]
            given = [... if dots else _hint(one, module) for one, dots in zip(parts, ellipsis, strict=True)]
            return outer[tuple(given)] if isinstance(inner, ast.Tuple) else outer[given[0]]
        case ast.Name() | ast.Attribute():
            found = _look_up(node, module)
            if not isinstance(found, Defined):
                return found
            if isinstance(found.node, ast.ClassDef):
                return _stand_in(found)
            if isinstance(found.node, ast.expr):
                return _hint(found.node, found.module)
        case _:
            pass
    raise Untold(ast.dump(node))
