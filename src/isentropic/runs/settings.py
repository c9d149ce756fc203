"""The resolved `config.yaml` of a run as dotted keys. Ten thousand files of 300 lines must take seconds."""

import re
from functools import lru_cache
from typing import Any

import yaml

from isentropic.runs.renamed import modern

Scalar = str | int | float | bool | None

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LINE = re.compile(r"( *)(?:(- )|([\w./@+-]+):(?: |$))(.*)")
SECTION = re.compile(r"\n(?=[^\s-])")
NOT_ON_ONE_LINE = ("|", ">", "&", "*", "!", "[", "{", "?", "%", "@", "`", "- ")


def flat(text: str) -> dict[str, Scalar]:
    """Dotted key → value under its name of today, lists of scalars as their text.

    Raises ValueError for what is no YAML mapping.
    """
    if not text.strip():
        raise ValueError("no YAML mapping: it is empty")
    found = _by_line(text)
    return modern(_by_parser(text) if found is None else found)


@lru_cache(maxsize=65536)
def scalar(text: str) -> Scalar:
    """Raises ValueError for what is no YAML scalar."""
    try:
        value = yaml.load(text, Loader=LOADER) if text else None
    except yaml.YAMLError as error:
        raise ValueError(f"{text!r} is no YAML value") from error
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def items(text: str) -> list[str]:
    """Of a YAML list of strings, such as Hydra's `overrides.yaml`."""
    found = yaml.load(text, Loader=LOADER)
    return [str(item) for item in found] if isinstance(found, list) else []


def _by_line(text: str) -> dict[str, Scalar] | None:
    """Block style with a value per line, as Hydra writes it; None for anything else."""
    found: dict[str, Scalar] = {}
    for section in SECTION.split(text):
        part = _section(section)
        if part is None:
            return None
        found.update(part)
    return found


@lru_cache(maxsize=4096)  # runs of a sweep share most of theirs
def _section(text: str) -> dict[str, Scalar] | None:
    """A top-level key with all that is under it."""
    found: dict[str, Scalar] = {}
    path: list[tuple[int, str]] = []  # indent and dotted key of the mappings around a line
    lists: dict[str, list[Scalar]] = {}
    opened = ""  # the key of the line before, if it had no value
    for line in text.splitlines():
        parsed = _line(line)
        if parsed is None:
            return None
        indent, item, name, value, bare = parsed
        if item:
            if not opened:
                return None
            lists.setdefault(opened, []).append(value)
            continue
        while path and path[-1][0] >= indent:
            path.pop()
        if indent > (path[-1][0] + 2 if path else 0):
            return None
        key = f"{path[-1][1]}.{name}" if path else name
        opened = key if bare else ""
        if bare:
            path.append((indent, key))
        else:
            found[key] = value
    return found | {key: _listed(values) for key, values in lists.items()}


@lru_cache(maxsize=65536)
def _line(line: str) -> tuple[int, bool, str, Scalar, bool] | None:
    """Indent, whether it is an item of a list, key, value, and whether there is none; None if it goes on below."""
    match = LINE.fullmatch(line)
    if match is None:
        return None
    indent, item, name, text = len(match[1]), bool(match[2]), match[3] or "", match[4]
    if text in ("{}", "[]"):
        return indent, item, name, None if text == "{}" else text, False
    quoted = text[:1] in ("'", '"')
    if text.startswith(NOT_ON_ONE_LINE) or (quoted and (len(text) < 2 or text[-1] != text[0])):
        return None
    if item and LINE.fullmatch(text):
        return None
    return indent, item, name, scalar(text), not text


def _by_parser(text: str) -> dict[str, Scalar]:
    try:
        loaded = yaml.load(text, Loader=LOADER)
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(loaded, dict):
        raise ValueError("no YAML mapping")
    found: dict[str, Scalar] = {}
    _walk(loaded, "", found)
    return found


def _walk(node: Any, key: str, found: dict[str, Scalar]) -> None:
    if isinstance(node, dict) and node:
        for name, value in node.items():
            _walk(value, f"{key}.{name}" if key else str(name), found)
    elif isinstance(node, list):
        found[key] = _listed(node)
    else:
        found[key] = node if isinstance(node, str | int | float | bool) else None if not node else str(node)


def _listed(values: list[Any]) -> str:
    return f"[{', '.join(map(str, values))}]"
