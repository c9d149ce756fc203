"""May two evaluations be compared? Only answers to the same prompts, by one decoding and by the same graders."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from isentropic.evaluation.protocol import parsed
from isentropic.evaluation.sets import Sheet, read
from isentropic.runs import files

MOST = 6  # differences that are listed
TASK = "task"  # the grader that judges by a task, or by the rule where the set is none of a task
OF_DATA = ("train", "test", "seed", "test_seed", "held_out", "drop_near", "bad_answers")  # what a task poses
OF_THE_MACHINE = ("workers", "timeout", "memory", "cage", "devices", "batch")
Settings = Mapping[str, Any]


def paired(ours: Path, theirs: Path, only: Sequence[str] = ()) -> tuple[list[Sheet], list[Sheet]]:
    """Their sheets, by set and problem in one order. Raises ValueError with a list of what differs."""
    mine, other = chosen(read(ours), only, ours), chosen(read(theirs), only, theirs)
    common = [sheet for sheet in mine if sheet.set in [one.set for one in other]]
    found = [*differences(mine, other), *apart(common, settings(ours), settings(theirs))]
    if found:
        more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
        raise ValueError(f"{ours} and {theirs} cannot be compared: {'; '.join(found[:MOST])}{more}")
    return mine, [same_order(one, mine) for one in sorted(other, key=lambda one: [m.set for m in mine].index(one.set))]


def chosen(found: Sequence[Sheet], only: Sequence[str], folder: Path) -> list[Sheet]:
    """The named sets, or all. Raises ValueError for one that the folder does not have."""
    lacking = [name for name in only if name not in [sheet.set for sheet in found]]
    if lacking:
        there = ", ".join(sheet.set for sheet in found)
        raise ValueError(f"{folder} has no set {lacking[0]}; it has {there}")
    return [sheet for sheet in found if not only or sheet.set in only]


def differences(ours: Sequence[Sheet], theirs: Sequence[Sheet]) -> Iterator[str]:
    """In sets, problems, prompts and graders, a phrase each."""
    mine, other = ({sheet.set: sheet for sheet in sheets} for sheets in (ours, theirs))
    for here, there, which in ((mine, other, "first"), (other, mine, "second")):
        alone = ", ".join(name for name in here if name not in there)
        if alone:
            yield f"only the {which} has {alone}"
    for name in [name for name in mine if name in other]:
        a, b = ({one.problem: one for one in sheet.problems} for sheet in (mine[name], other[name]))
        left, right = len(a.keys() - b.keys()), len(b.keys() - a.keys())
        if left or right:
            yield f"{name} has {left} problems that only the first was asked, and {right} that only the second was"
        elif len(mine[name].problems) != len(other[name].problems):
            rows = [len(sheet.problems) for sheet in (mine[name], other[name])]
            yield f"{name} has {rows[0]} rows in the first and {rows[1]} in the second"
        unlike = [key for key in a if key in b and a[key].prompt_hash != b[key].prompt_hash]
        if unlike:
            row = a[unlike[0]].row
            yield f"{name} has other prompts for {len(unlike)} of {len(a)} problems, the first in row {row}"
        unlike = [key for key in a if key in b and a[key].gold != b[key].gold]
        if unlike:
            one, two = a[unlike[0]], b[unlike[0]]
            yield (
                f"{name} has other golds for {len(unlike)} of {len(a)} problems, the first in row {one.row}:"
                f" {said(one.gold)} and {said(two.gold)}"
            )
        names = [decided_by(sheet) for sheet in (mine[name], other[name])]
        if names[0] != names[1]:
            yield f"{name} is judged by {names[0]} and by {names[1]}"


def decided_by(sheet: Sheet) -> str:
    """Name of the grader whose verdicts count, or of several where answers differ in it."""
    return " or ".join(dict.fromkeys(next(iter(one.verdicts)) for one in sheet.every))


def same_order(theirs: Sheet, ours: Sequence[Sheet]) -> Sheet:
    """Their sheet of a set with its problems in our order."""
    mine = next(one for one in ours if one.set == theirs.set)
    place = {problem.problem: i for i, problem in enumerate(theirs.problems)}
    order = [place[problem.problem] for problem in mine.problems]
    return Sheet(theirs.set, [theirs.problems[i] for i in order], [theirs.answers[i] for i in order])


def settings(folder: Path) -> Settings:
    """config.yaml. Raises ValueError where it is not there or cannot be read."""
    file = folder / files.CONFIG
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        raise ValueError(f"{file} cannot be read, and without it nothing says how its answers were decoded") from None
    return cast(Settings, found) if isinstance(found, Mapping) else {}


def apart(sheets: Sequence[Sheet], ours: Settings, theirs: Settings) -> Iterator[str]:
    """What differs in the decoding of a set, and in how its grader judges."""
    for sheet in sheets:
        how = [decoding(config, sheet.set) for config in (ours, theirs)]
        if None in how:
            which = "first" if how[0] is None else "second"
            yield f"the config.yaml of the {which} does not tell how {sheet.set} was decoded"
        else:
            yield from unlike(f"decoding of {sheet.set}", *how)
    found: dict[str, tuple[Any, Any]] = {}
    for sheet in sheets:
        here, there = judging(sheet, ours), judging(sheet, theirs)
        found |= {key: (here.get(key), there.get(key)) for key in here | there}
    for key, both in found.items():
        yield from unlike(key, *both)


def judging(sheet: Sheet, config: Settings) -> dict[str, Any]:
    """Settings of the grader that decides a set, by their keys: those of others decide nothing."""
    name = decided_by(sheet)
    if name != TASK:
        given = (str(one).partition("=") for one in config.get("grading") or ())
        of_it = {key: value for key, _, value in given if key.startswith(f"graders.{name}.")}
        return {key: value for key, value in of_it.items() if key.rpartition(".")[2] not in OF_THE_MACHINE}
    base = parsed(sheet.set)[0]
    task = (config.get("tasks") or {}).get(base)
    if task is None:
        return {"rule": config.get("rule")}
    return {f"tasks.{base}": {key: value for key, value in task.items() if key not in OF_DATA}}


def decoding(config: Settings, name: str) -> Any:
    """Of a set: as its answers were asked for, or else as the protocol says; None where neither is there."""
    asked = ((config.get("asked") or {}).get(name) or {}).get("decoding")
    exams = ((config.get("evaluation") or {}).get("protocol") or {}).get("exams") or {}
    return asked or next((exam.get("decoding") for exam in exams.values() if name in (exam.get("sets") or ())), None)


def unlike(key: str, ours: Any, theirs: Any) -> Iterator[str]:
    """Settings that differ, in a sentence each; what only says where it ran is left out."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        mine, other = cast(Settings, ours), cast(Settings, theirs)
        for name in dict.fromkeys([*mine, *other]):
            if name not in OF_THE_MACHINE:
                yield from unlike(f"{key}.{name}", mine.get(name), other.get(name))
    elif ours != theirs:
        yield f"{key} is {said(ours)} and {said(theirs)}"


def said(value: Any) -> str:
    """A value in at most 60 characters."""
    return "null" if value is None else f"{value!s:.60}"
