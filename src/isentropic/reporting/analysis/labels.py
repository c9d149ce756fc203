"""Short names of groups: the choice that was made on the command line rather than the twenty keys that it changed."""

import re
from collections.abc import Sequence

from isentropic.runs.run import Run
from isentropic.runs.settings import Scalar

DEFAULT = "default"
SPEAKS = re.compile(r"(?!(?i:true|false|null|none|default|nan|inf|yes|no|on|off)$)[A-Za-z_][\w= ]+")


def labels(groups: Sequence[Sequence[Run]], settings: dict[str, list[Scalar]], seeds: list[str]) -> list[str]:
    """One per group, all different. A label that the user gave goes before any other."""
    given = [runs[0].label for runs in groups]
    if all(given) and len(set(given)) == len(groups):
        return given
    parts = _enough(_chosen(groups, set(seeds)), given)
    parts |= _enough(_settings(groups, settings), list(zip(given, *parts.values(), strict=True)))
    names = _short(list(parts))
    texts = [
        " ".join(filter(None, [given[i], *(_text(names[key], values[i]) for key, values in parts.items())]))
        for i in range(len(groups))
    ]
    texts = [
        (text if runs[0].config else given[i]) or _kind(runs[0]) or runs[0].folder.name
        for i, (text, runs) in enumerate(zip(texts, groups, strict=True))
    ]
    return _distinct(texts, groups)


def _chosen(groups: Sequence[Sequence[Run]], left_out: set[str]) -> dict[str, list[str]]:
    """Overrides that differ between groups, by key; two that came to the same settings are named together."""
    columns: dict[str, list[str]] = {}
    spoken = [[_spoken(run) for run in runs] for runs in groups]
    for key in dict.fromkeys(key for runs in spoken for made in runs for key in made):
        if key in left_out or key.startswith(("hydra", "paths", "logger", "callbacks", "tags", "ckpt_path")):
            continue
        found = [{made[key] for made in runs if key in made} for runs in spoken]
        if sum(len(values) > 1 for values in found) <= len(groups) / 2:
            column = [
                " = ".join(sorted(values)) or _config_of(runs[0], key)
                for values, runs in zip(found, groups, strict=True)
            ]
            if len(set(column)) > 1:
                columns[key] = column
    return columns


def _spoken(run: Run) -> dict[str, str]:
    return {key.lstrip("+~"): value for key, _, value in (line.partition("=") for line in run.overrides)}


def _config_of(run: Run, key: str) -> str:
    return str(run.config.get(key, DEFAULT))


def _settings(groups: Sequence[Sequence[Run]], settings: dict[str, list[Scalar]]) -> dict[str, list[str]]:
    return {key: [str(runs[0].config.get(key, "-")) for runs in groups] for key in settings}


def _enough(candidates: dict[str, list[str]], taken: Sequence[object]) -> dict[str, list[str]]:
    """The fewest keys, as far as a greedy choice goes, that tell apart what is not told apart yet."""
    found: dict[str, list[str]] = {}
    so_far: list[object] = list(taken)
    left = dict(candidates)
    while left and len(set(so_far)) < len(so_far):
        best = max(left, key=lambda key: (_split(so_far, left[key]), key.endswith("_target_"), -len(key)))
        column = left.pop(best)
        if _split(so_far, column) == len(set(so_far)):
            break
        found[best] = column
        so_far = list(zip(so_far, column, strict=True))
    return {key: found[key] for key in candidates if key in found}


def _split(so_far: Sequence[object], column: Sequence[str]) -> int:
    return len(set(zip(so_far, column, strict=True)))


def _short(keys: Sequence[str]) -> dict[str, str]:
    """The last part of a key, unless two would be called alike."""
    ends = {key: key.replace("/", ".").removesuffix("._target_").rpartition(".")[2] for key in keys}
    return {key: end if list(ends.values()).count(end) == 1 else key for key, end in ends.items()}


def _text(name: str, value: str) -> str:
    """The value alone where it names a method or task; `name=value` where it is a number, a list or a switch."""
    plain = value.rpartition(".")[2] if value.startswith("isentropic.") else value
    return plain if SPEAKS.fullmatch(plain) else f"{name}={plain}"


def _kind(run: Run) -> str:
    return next((_spoken(run)[key] for key in ("algorithm", "experiment") if key in _spoken(run)), "")


def _distinct(texts: list[str], groups: Sequence[Sequence[Run]]) -> list[str]:
    """Where settings do not tell them apart, folders do."""
    twice = {text for text in texts if texts.count(text) > 1}
    named = [f"{t} ({runs[0].folder.name})" if t in twice else t for t, runs in zip(texts, groups, strict=True)]
    seen: dict[str, int] = {}
    result: list[str] = []
    for text in named:
        seen[text] = seen.get(text, 0) + 1
        result.append(text if seen[text] == 1 else f"{text} #{seen[text]}")
    return result
