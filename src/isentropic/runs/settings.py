"""The resolved `config.yaml` of a run as dotted keys."""

from typing import Any

import yaml

from isentropic.runs.renamed import modern

Scalar = str | int | float | bool | None

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def flat(text: str) -> dict[str, Scalar]:
    """Dotted key → value under its name of today, lists as their text.

    Raises ValueError for what is no YAML mapping.
    """
    loaded = _load(text)
    if not isinstance(loaded, dict):
        raise ValueError("no YAML mapping" + ("" if text.strip() else ": it is empty"))
    found: dict[str, Scalar] = {}
    _walk(loaded, "", found)
    return modern(found)


def items(text: str) -> list[str]:
    """Of a YAML list of strings, such as Hydra's `overrides.yaml`. Raises ValueError for what is no YAML."""
    found = _load(text)
    return [str(item) for item in found] if isinstance(found, list) else []


def _load(text: str) -> Any:
    try:
        return yaml.load(text, Loader=LOADER)
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())}") from error


def _walk(node: Any, key: str, found: dict[str, Scalar]) -> None:
    if isinstance(node, dict) and node:
        for name, value in node.items():
            _walk(value, f"{key}.{name}" if key else str(name), found)
    elif isinstance(node, list):
        found[key] = f"[{', '.join(map(str, node))}]"
    else:
        found[key] = node if isinstance(node, str | int | float | bool) else None if not node else str(node)
