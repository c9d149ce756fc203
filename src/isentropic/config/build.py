"""From a config to the parts it describes: checked whole before anything is made, plain containers only.

    policy = build(cfg, "policy", algorithm=algorithm)      # settings from the config, the rest from the caller
    with bad_input("ckpt_path"):                            # a ValueError or OSError in here is the user's to mend
        ...

Works as `hydra.utils.instantiate` does, with `_target_` and `_partial_`, but never turns a dataclass back into a
config, and knows the dotted key of what is wrong. `_convert_` is accepted and always "object".
"""

import inspect
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import UnionType
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

from beartype import BeartypeConf
from beartype.door import is_bearable, is_subhint
from hydra._internal.utils import _locate  # pyright: ignore[reportPrivateUsage]
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from isentropic.config.nearest import nearest
from isentropic.config.signatures import UNTOLD, Signature, read
from isentropic.runs import renamed

RESERVED = {"_target_", "_partial_", "_convert_"}
TOWER = BeartypeConf(is_pep484_tower=True)  # 1 is a float, as in YAML


class BadInput(ValueError):
    """What the user gave cannot be used. Its text is one sentence, which entry points print instead of a traceback."""


@contextmanager
def bad_input(key: str = "") -> Generator[None]:
    """Names the key, and marks as the user's, any ValueError, OSError or ImportError raised inside."""
    try:
        yield
    except BadInput:
        raise
    except (ValueError, OSError, ImportError) as error:
        text = " ".join(str(error).split())
        raise BadInput(text if not key or text.startswith(key) else f"{key}: {text}") from error


def build(cfg: DictConfig, key: str, **given: Any) -> Any:
    """The part at a dotted key, or a dict of parts, or None. `given` are arguments that no config can hold.

    Raises BadInput for unknown or missing settings, values of the wrong type, and what constructors refuse.
    """
    settings = plain(cfg, key)
    check(settings, key)
    return _make(settings, key, given)


def plain(cfg: DictConfig, key: str = "") -> Any:
    """Resolved dicts and lists of the node at a dotted key. Raises BadInput where a value is missing."""
    try:
        node = OmegaConf.select(cfg, key) if key else cfg
        if not OmegaConf.is_config(node):
            return node
        for name, value in leaves(OmegaConf.to_container(node), key):
            if value == "???":
                raise BadInput(f"{name} has no value; set it with {name}=...")
        return OmegaConf.to_container(node, resolve=True)
    except OmegaConfBaseException as error:
        raise BadInput(f"{error.full_key or key}: {str(error).splitlines()[0]}") from error


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values; lists and empty dicts are values."""
    if is_dict(node) and node:
        for name, value in node.items():
            yield from leaves(value, f"{key}.{name}" if key else str(name))
    else:
        yield key, node


def is_dict(node: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(node, dict)


def is_list(node: Any) -> TypeGuard[list[Any]]:
    return isinstance(node, list)


def check(settings: Any, key: str = "", look: "Look | None" = None) -> None:
    """Every setting of every part below: does the part have it, and is its value of that type? Makes nothing.

    Raises BadInput for the first that fails. `look=by_source` imports no part, and leaves what only an import tells.
    """
    look = look or by_import
    if is_list(settings):
        for index, value in enumerate(settings):
            check(value, f"{key}[{index}]", look)
    elif is_dict(settings):
        if "_target_" in settings:
            _check_part(settings, key, look)
        for name, value in settings.items():
            check(value, f"{key}.{name}".strip("."), look)


def by_source(settings: Mapping[str, Any], key: str) -> Signature | None:
    """Raises BadInput if there is no such part."""
    try:
        return read(settings["_target_"])
    except LookupError:
        return by_import(settings, key)  # which says why


def by_import(settings: Mapping[str, Any], key: str) -> Signature:
    target = _target(settings, key)
    parameters = _parameters(target).values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    try:
        hints = get_type_hints(target.__init__ if isinstance(target, type) else target)
    except (NameError, TypeError):  # annotations that only a type checker can read
        hints = {}
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return Signature(names, open_ended, lambda name: hints.get(name, Any), target if isinstance(target, type) else None)


Look = Callable[[Mapping[str, Any], str], Signature | None]


def _check_part(settings: Mapping[str, Any], key: str, look: Look) -> None:
    part = look(settings, key)
    if part is None:
        return
    for name, value in settings.items():
        if name in RESERVED:
            continue
        if name not in part.names and not part.open_ended:
            left_over = f"; if it was set for another part, ~{key}.{name} takes it away"
            raise BadInput(does_not_exist(f"{key}.{name}", name, part.names, key, far=left_over))
        if name in part.names and (hint := part.hint(name)) is not Any:
            _check_value(value, hint, f"{key}.{name}", look)


def _check_value(value: Any, hint: Any, key: str, look: Look) -> None:
    if is_dict(value) and "_target_" in value:
        part = look(value, key)
        made = part and part.made
        fits = value.get("_partial_") or made is None or is_subhint(made, hint) or _may_fit(made, hint)
        value = value["_target_"]
    elif is_dict(value) and get_origin(hint) is dict:
        part = get_args(hint)[1]
        for name, item in value.items():
            if is_dict(item) and "_target_" not in item and isinstance(part, type) and part not in (dict, Any):
                if answer := renamed.answer(f"{key}.{name}"):
                    raise BadInput(answer)
                raise BadInput(not_chosen(key, name, item))
            _check_value(item, part, f"{key}.{name}", look)
        return
    elif holds_parts(value):
        return
    else:
        wrong_flag = isinstance(value, bool) and hint in (int, float, int | None, float | None)
        fits = bears(hint, value) and not wrong_flag
    if isinstance(value, float) and math.isnan(value):
        raise BadInput(f"{key}=nan is not a number")
    if not fits:
        raise BadInput(f"{key}={'null' if value is None else value} is not {_describe(hint)}")


def bears(hint: Any, value: Any) -> bool:
    """Whether a value is of a type; of lists every item is looked at, where beartype draws one by chance."""
    options: tuple[Any, ...] = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    lists = [get_args(option)[0] for option in options if get_origin(option) in (list, Sequence)]
    if is_list(value) and lists:
        return any(all(bears(item, one) for one in value) for item in lists)
    return is_bearable(value, hint, conf=TOWER)


def _may_fit(made: Any, hint: Any) -> bool:
    """Whether a source did not tell all that the class is based on, or what it must be."""
    return made in UNTOLD or any(option in UNTOLD for option in (hint, *get_args(hint)))


def holds_parts(value: Any) -> bool:
    items = list(value.values()) if is_dict(value) else value if is_list(value) else []
    return any((is_dict(item) and "_target_" in item) or holds_parts(item) for item in items)


def _describe(hint: Any) -> str:
    if hint is type(None):
        return "null"
    if get_origin(hint) is Literal:
        return listed(map(str, get_args(hint)), "or")
    if isinstance(hint, type) and not get_args(hint):
        return ("an " if hint.__name__[0] in "aeiouAEIOU" else "a ") + hint.__name__
    return listed((_describe(option) for option in get_args(hint)), "or") if type(None) in get_args(hint) else str(hint)


def _target(settings: Mapping[str, Any], key: str) -> Any:
    path = settings["_target_"]
    try:
        return _locate(path)  # the public get_object logs a second account of what goes wrong
    except (ImportError, ValueError) as error:
        cause = error.__cause__ or error
        if not isinstance(cause, (ImportError, AttributeError, ValueError)):
            raise
        raise BadInput(f"{key}: {path} cannot be imported ({' '.join(str(cause).split())})") from error


def _parameters(target: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(target).parameters


def _make(settings: Any, key: str, given: Mapping[str, Any]) -> Any:
    if is_list(settings):
        return [_make(value, f"{key}[{index}]", {}) for index, value in enumerate(settings)]
    if not is_dict(settings):
        return settings
    made = {name: _make(value, f"{key}.{name}", {}) for name, value in settings.items() if name not in RESERVED}
    if "_target_" not in settings:
        return made
    target, arguments = _target(settings, key), made | dict(given)
    if settings.get("_partial_"):
        return partial(target, **arguments)
    needed = [p.name for p in _parameters(target).values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    for name in needed:
        if name not in arguments:
            raise BadInput(f"{key}.{name} has no value; set it with {key}.{name}=...")
    with bad_input(key):
        try:
            return target(**arguments)
        except (BadInput, OSError, ImportError):
            raise
        except Exception as error:  # libraries refuse settings by exceptions of their own
            raise ValueError(str(error) or type(error).__name__) from error


def check_chosen(settings: Mapping[str, Any], groups: Iterable[str]) -> None:
    """Raises BadInput for settings of a part that is none of these groups' chosen ones."""
    for key in groups:
        group = settings.get(key)
        for name, item in group.items() if is_dict(group) and "_target_" not in group else ():
            if is_dict(item) and "_target_" not in item:
                raise BadInput(not_chosen(key, name, item))


def not_chosen(key: str, name: str, item: Any) -> str:
    chosen = f"add {name} to {key.replace('.', '/')}=[...] or take them away with ~{key}.{name}"
    return f"{key}.{name} has settings ({item}) but is not chosen; {chosen}"


def does_not_exist(what: str, name: str, names: Iterable[str], at: str, kind: str = "the keys", far: str = "") -> str:
    """One sentence with all that exists, and the closest of it, or what to say if nothing is close.

    Of what was renamed, with its name of now alone.
    """
    if answer := renamed.answer(what):
        return answer
    names = sorted(names)
    closest = nearest(name, names)
    hint = f"; did you mean {closest}?" if closest else far
    return f"{what} does not exist: {at or 'the config'} has {f'{kind} {listed(names)}' if names else 'none'}{hint}"


def listed(names: Iterable[str], word: str = "and") -> str:
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last
