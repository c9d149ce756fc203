"""Runs by what differs in their settings; runs that differ in their seed alone are replicates of one another."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isentropic.reporting.analysis.labels import labels
from isentropic.runs.run import Run
from isentropic.runs.settings import Scalar

# Where a run lies, what it is called and who watches it: none of it changes what is learnt.
NO_SETTINGS = re.compile(
    r"(paths|logger|callbacks|hydra)\..+|tags|print_config|ckpt_path|extras\..+"
    r"|(.*\.)?(save_dir|default_root_dir|output|output_dir|log_dir|dirpath|run_name|run_id|job_id|port|enable_\w+)"
)
ABSENT = "(not set)"


@dataclass(frozen=True)
class Group:
    """Replicates. `settings`: each varied key → this group's value, or ABSENT."""

    label: str
    settings: dict[str, Scalar]
    runs: list[Run]  # in the order of their seeds

    @property
    def seeds(self) -> list[Scalar]:
        return [run.seed for run in self.runs]


@dataclass(frozen=True)
class Grouping:
    groups: list[Group]  # in the order in which their first runs were found
    settings: list[str]  # keys by which groups differ
    seeds: list[str]  # keys that tell replicates apart
    notes: list[str]  # sentences about keys that are neither


def group(runs: Sequence[Run], ignore: Iterable[str] = ()) -> Grouping:
    """`ignore`: keys, or beginnings of keys, that are not to tell groups apart.

    Raises ValueError for one that no run has.
    """
    ignored = tuple(ignore)
    known = [run for run in runs if run.config]
    keys = {key: None for run in known for key in run.config}
    for name in ignored:
        if not any(_under(key, name) for key in keys):
            raise ValueError(f"--ignore {name}: no run has such a key; config.yaml of a run lists them")
    changing = _changing([run.config for run in known])
    asked = [key for key in keys if key in changing and not NO_SETTINGS.fullmatch(key)]
    written = {key: [run.config.get(key, ABSENT) for run in known] for key in asked}
    placed = any(_place(value) for column in written.values() for value in column)
    homes = [_homes(run) if placed else () for run in known]
    columns = {key: _placeless(column, homes) for key, column in written.items() if _differ(column)}
    varied = {k: c for k, c in columns.items() if _differ(c) and not any(_under(k, i) for i in ignored)}
    seeds = _seeds(varied)
    settings = {key: column for key, column in varied.items() if key not in seeds}
    notes: list[str] = []
    for key in _unique_by_nature(settings, seeds, known):
        del settings[key]
        notes.append(
            f"{key} differs in every run, as seeds do, and nobody chose it on the command line: it was not taken for a"
            " setting."
        )
    place = {id(run): index for index, run in enumerate(known)}
    for key, value in _unknown_to_older(settings, known).items():
        lacking = settings.pop(key).count(ABSENT)
        notes.append(
            f"{key} is not known to {lacking} of {len(known)} runs, which are of before it existed, and is {value} in"
            " all others: it was not taken for a setting."
        )
    whole = {key: [c[place[id(r)]] if id(r) in place else ABSENT for r in runs] for key, c in settings.items()}
    return _grouped(runs, whole, seeds, notes)


def _grouped(runs: Sequence[Run], settings: dict[str, list[Scalar]], seeds: list[str], notes: list[str]) -> Grouping:
    found: dict[tuple[object, ...], list[int]] = {}
    for index, run in enumerate(runs):
        unknown = None if run.config else run.folder  # without a config nothing says that two are alike
        same = (run.label, unknown, *((type(c[index]) is bool, c[index]) for c in settings.values()))
        found.setdefault(same, []).append(index)
    names = labels([[runs[i] for i in members] for members in found.values()], settings, seeds)
    groups = [
        Group(
            label=name,
            settings={key: column[members[0]] for key, column in settings.items()},
            runs=sorted((runs[i] for i in members), key=lambda run: _order(run.seed)),
        )
        for name, members in zip(names, found.values(), strict=True)
    ]
    alone = [key for key, column in settings.items() if len(set(column)) == len(runs) > 2]
    if alone and len(groups) == len(runs):
        listed = ", ".join(alone[:3]) + (" and others" if len(alone) > 3 else "")
        notes.append(
            f"No two runs have the same settings: {listed} differs in every run, so there are no replicates; where it"
            f" is no setting, --ignore {alone[0]} leaves it out."
        )
    return Grouping(groups, list(settings), seeds, notes)


def _changing(configs: list[dict[str, Scalar]]) -> set[str]:
    """Keys that are not the same in all, and maybe more: the others of thousands of runs need no column."""
    if not configs:
        return set()
    first, found = configs[0].items(), set[str]()
    true = {key for key, value in first if value is True}
    for config in configs:
        found.update(key for key, _ in first ^ config.items())
        found |= true ^ {key for key, value in config.items() if value is True}  # in Python, True is 1
    return found | {key for config in configs for key, value in config.items() if value != value}


def _placeless(column: list[Scalar], homes: list[tuple[str, ...]]) -> list[Scalar]:
    """Paths without the folders that are the machine's or the run's, so that copies of a project compare."""
    return [_stripped(value, home) for value, home in zip(column, homes, strict=True)]


def _differ(column: list[Scalar]) -> bool:
    """In Python, True is 1."""
    first = column[0]
    return any(value != first or (value is True) != (first is True) for value in column)


def _stripped(value: Scalar, home: tuple[str, ...]) -> Scalar:
    if isinstance(value, str) and _place(value):
        for path in home:
            if value.startswith(path):
                return "…" + value[len(path) :]
    return value


def _place(value: Scalar) -> bool:
    return isinstance(value, str) and "/" in value


def _homes(run: Run) -> tuple[str, ...]:
    """Longest first, as some lie within others."""
    paths = {str(value) for key, value in run.config.items() if key.startswith("paths.") and value}
    return tuple(sorted(paths | {str(run.folder)}, key=len, reverse=True))


def _seeds(varied: dict[str, list[Scalar]]) -> list[str]:
    """`seed` and what only follows it; where it is the same in all, whatever else is called a seed."""
    called = [key for key in varied if key.rpartition(".")[2] == "seed"]
    if "seed" not in varied:
        return called
    leading = varied["seed"]
    equal = [key for key, column in varied.items() if column == leading]
    return [key for key in varied if key in equal or (key in called and follows(varied[key], leading))]


def _unique_by_nature(settings: dict[str, list[Scalar]], seeds: list[str], runs: Sequence[Run]) -> list[str]:
    """Keys that differ in every run while a seed does so too, so that nothing could be compared by them."""
    if len(runs) < 3 or not seeds:
        return []
    chosen = {line.lstrip("+~").partition("=")[0] for run in runs for line in run.overrides}
    unique = [key for key, column in settings.items() if len(set(column)) == len(runs)]
    rest = [column for key, column in settings.items() if key not in unique]
    replicated = len(set(zip(*rest, strict=True))) < len(runs) if rest else True
    return [k for k in unique if replicated and not any(_under(k, name.replace("/", ".")) for name in chosen)]


def _unknown_to_older(settings: dict[str, list[Scalar]], runs: Sequence[Run]) -> dict[str, Scalar]:
    """Keys that some runs lack, with the one value that all others have, where parts and command lines are alike in it.

    A part has all of its keys, so what lacks one is of before that key existed.
    """
    lines = Counter(line for run in runs for line in set(run.overrides))
    own = {line for line, count in lines.items() if count < len(runs)}
    chosen = {line.lstrip("+~").partition("=")[0].replace("/", ".") for line in own}
    found: dict[str, Scalar] = {}
    for key, column in settings.items():
        values = {value for value in column if value != ABSENT}
        part = f"{key.rpartition('.')[0]}._target_"
        parts = {run.config.get(part, ABSENT) for run in runs}
        alike = len(values) == len(parts) == 1 and ABSENT in column and ABSENT not in parts
        if alike and "experiment" not in chosen and not any(_under(key, name) for name in chosen):
            found[key] = values.pop()
    return found


def follows(column: Sequence[object], leading: Sequence[object]) -> bool:
    """Whether one is a function of the other."""
    value: dict[object, object] = {}
    return all(value.setdefault(cause, effect) == effect for cause, effect in zip(leading, column, strict=True))


def _under(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def _order(seed: Scalar) -> tuple[int, float, str]:
    if isinstance(seed, int | float):
        return (0, float(seed), "")
    return (1, 0.0, str(seed))
