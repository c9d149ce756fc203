"""The resolved `config.yaml` of a run as dotted keys. Ten thousand files of 300 lines must take seconds."""

import re
from typing import Any

import yaml

Scalar = str | int | float | bool | None

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LINE = re.compile(r"( *)(?:(- )|([\w./@+-]+):(?: |$))(.*)")
NOT_ON_ONE_LINE = ("|", ">", "&", "*", "!", "[", "{", "?", "%", "@", "`", "- ")
KNOWN: dict[str, Scalar] = {}  # text of a value → value: runs of a sweep repeat one another


def flat(text: str) -> dict[str, Scalar]:
    """Dotted key → value, lists of scalars as their text. Raises ValueError for what is no YAML mapping."""
    found = _by_line(text)
    return _by_parser(text) if found is None else found


def scalar(text: str) -> Scalar:
    """Raises ValueError for what is no YAML scalar."""
    if text not in KNOWN:
        try:
            value = yaml.load(text, Loader=LOADER) if text else None
        except yaml.YAMLError as error:
            raise ValueError(f"{text!r} is no YAML value") from error
        KNOWN[text] = value if isinstance(value, str | int | float | bool | None) else str(value)
    return KNOWN[text]


def items(text: str) -> list[str]:
    """Of a YAML list of strings, such as Hydra's `overrides.yaml`."""
    found = yaml.load(text, Loader=LOADER)
    return [str(item) for item in found] if isinstance(found, list) else []


def _by_line(text: str) -> dict[str, Scalar] | None:
    """Block style with a value per line, as Hydra writes it; None for anything else."""
    found: dict[str, Scalar] = {}
    path: list[tuple[int, str]] = []  # indent and dotted key of the mappings around a line
    lists: dict[str, list[Scalar]] = {}
    opened = ""  # the key of the line before, if it had no value
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            return None
        indent, item, name, value = len(match[1]), match[2], match[3], match[4]
        if value.startswith(NOT_ON_ONE_LINE) and value not in ("{}", "[]"):
            return None
        if value[:1] in ("'", '"') and (len(value) < 2 or value[-1] != value[0]):
            return None
        if item:
            if not opened or LINE.fullmatch(value):
                return None
            lists.setdefault(opened, []).append(scalar(value))
            continue
        while path and path[-1][0] >= indent:
            path.pop()
        if indent > (path[-1][0] + 2 if path else 0):
            return None
        key = f"{path[-1][1]}.{name}" if path else name
        if value:
            opened = ""
            found[key] = {"{}": None, "[]": "[]"}.get(value) if value in ("{}", "[]") else scalar(value)
        else:
            opened = key
            path.append((indent, key))
    return found | {key: _listed(values) for key, values in lists.items()}


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
