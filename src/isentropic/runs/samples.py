"""A run's `samples.jsonl`, of any age and size: the few answers of it that are worth a look token by token."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isentropic.runs.completions import Answer, column, commonest, numeric, of_line, places
from isentropic.runs.files import SAMPLES

STEPS = 6  # of a run, at most
GROUPS = 3  # of a rollout, at most


@dataclass(frozen=True)
class Choice:
    """Answers to show, and sentences on what was left out."""

    answers: list[Answer]
    reasons: dict[int, str]  # by rollout, why it was chosen
    notes: list[str]


@dataclass
class Step:
    """Where a rollout stands in the file, and how many of its tokens credit rules or limits acted on."""

    offsets: list[int]
    acted: int = 0


def choose(file: Path, size: int) -> Choice:
    """First, middle and last rollout, and those where most was done to tokens, in about `size` bytes of JSON.

    Raises ValueError for a file without a single completion of this format.
    """
    steps, lost = scan(file)
    if not steps:
        raise ValueError(f"{file} holds no completion that could be read; a run writes it with callbacks.samples")
    reasons = reasons_of(steps)
    shown: list[Answer] = []
    told: dict[int, str] = {}
    for step, reason in reasons.items():
        wanted = contrast(list(read(file, steps[step].offsets)))
        room = size - sum(weigh(line) for line in shown)
        fitting = within(wanted, room, at_least=0 if shown else 1)
        if fitting:
            shown += fitting
            told[step] = reason
    shown.sort(key=lambda line: line["step"] or 0)
    return Choice(shown, dict(sorted(told.items())), notes(steps, told, shown, lost))


def scan(file: Path) -> tuple[dict[int, Step], int]:
    """Each rollout's place in the file, and how many lines could not be read."""
    steps: dict[int, Step] = {}
    lost = offset = 0
    with file.open("rb") as lines:
        for raw in lines:
            line = parse(raw)
            if line:
                step = steps.setdefault(line.get("step") or 0, Step([]))
                step.offsets.append(offset)
                step.acted += acted(line)
            lost += not line and bool(raw.strip())
            offset += len(raw)
    return steps, lost


def read(file: Path, offsets: list[int]) -> Iterator[Answer]:
    with file.open("rb") as lines:
        for offset in offsets:
            lines.seek(offset)
            yield of_line(json.loads(lines.readline()))


def parse(raw: bytes) -> dict[str, Any] | None:
    """None for a line that was cut short or is of another format."""
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    fits = isinstance(line, dict) and numeric(line.get("logp"))
    return line if fits and isinstance(line.get("step", 0), int) else None


def acted(line: dict[str, Any]) -> int:
    """Tokens that a rule or a limit acted on."""
    found = [places(line, kind) for kind in ("touched", "clipped")]
    if found[0] is not None:
        return len({place for one in found if one for tokens in one.values() for place in tokens})
    kept, credit = line.get("kept"), column(line, "advantages") or []
    usual = commonest(credit)
    dropped = kept.count(False) if isinstance(kept, list) else 0
    return dropped + (0 if usual is None else sum(value != usual for value in credit))


def reasons_of(steps: dict[int, Step]) -> dict[int, str]:
    """The rollouts to show, most wanted first."""
    order = sorted(steps)
    busiest = [step for step in sorted(order, key=lambda step: -steps[step].acted) if steps[step].acted]
    wanted = [(order[-1], "last"), (order[0], "first"), (order[len(order) // 2], "middle")]
    wanted[2:2] = [(step, "most tokens acted on") for step in busiest[:1]]
    wanted += [(step, "many tokens acted on") for step in busiest[1:STEPS]]
    reasons: dict[int, str] = {}
    for step, reason in wanted:
        if step in reasons or len(reasons) < STEPS:
            reasons[step] = f"{reasons[step]}, {reason}" if step in reasons else reason
    return reasons


def contrast(lines: list[Answer]) -> list[Answer]:
    """Of a rollout's groups, those with right and wrong answers, or in which more was done, before others."""
    groups: dict[str, list[Answer]] = {}
    for line in lines:
        groups.setdefault(line["group"], []).append(line)

    def worth(group: list[Answer]) -> tuple[bool, int]:
        done = sum(len(places) for line in group for places in (line["touched"] or {}).values())
        return len({line["correct"] for line in group}) > 1, done

    return [line for group in sorted(groups.values(), key=worth, reverse=True)[:GROUPS] for line in group]


def within(lines: list[Answer], room: int, at_least: int) -> list[Answer]:
    kept: list[Answer] = []
    for line in lines:
        room -= weigh(line)
        if room < 0 and len(kept) >= at_least:
            break
        kept.append(line)
    return kept


def weigh(line: Answer) -> int:
    return len(json.dumps(line))


def notes(steps: dict[int, Step], told: dict[int, str], shown: list[Answer], lost: int) -> list[str]:
    found: list[str] = []
    if len(told) < len(steps):
        chosen = ", ".join(f"{step} ({reason})" for step, reason in sorted(told.items()))
        found.append(f"Of {len(steps)} rollouts in {SAMPLES}, {len(told)} are on this page: {chosen}.")
    left = sum(len(steps[step].offsets) for step in told) - len(shown)
    if left:
        found.append(f"Of these rollouts, {left} more answers are in the file alone.")
    if lost:
        found.append(f"{'1 line' if lost == 1 else f'{lost} lines'} of {SAMPLES} left out, which could not be read.")
    return found
