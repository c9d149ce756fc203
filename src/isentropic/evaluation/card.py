"""The card of an evaluation, as data: who was asked what, how well it went, and how to do it again."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from isentropic.evaluation.answers import Answered, Asked
from isentropic.evaluation.comparable import decoding, paired, settings
from isentropic.evaluation.paired import differences
from isentropic.evaluation.scores import of_sheets
from isentropic.evaluation.sets import Sheet, read

CARD = "card.json"
READ = {"versions": "versions.json", "contamination": "contamination.json", "agreement": "agreement.json"}
HEAD, TAIL = 1_500, 2_500  # characters of an answer that are shown
Card = dict[str, Any]


def card_of(folder: Path, command: str | None = None, against: Path | None = None) -> Card:
    """From what the folder keeps; what others did not write into it is None.

    `command` repeats the evaluation; without it, it is that of the card before, or made of the settings. Raises
    ValueError for a folder that is none or is not finished.
    """
    found, config = read(folder), settings(folder)
    protocol = cast(Mapping[str, Any], (config.get("evaluation") or {}).get("protocol") or {})
    kept = {name: kept_in(folder / file) for name, file in READ.items()}
    subject, name = str(config.get("subject") or folder.name), str(protocol.get("name") or "own")
    before = kept_in(folder / CARD)
    known = before.get("command") if isinstance(before, Mapping) else None
    return {
        "subject": subject,
        "weights": kept["versions"].get("weights") if kept["versions"] else None,
        "protocol": {
            "name": name,
            **{key: protocol.get(key) for key in ("source", "grade", "says")},
            "assumed": dict(protocol.get("assumed") or {}),
            "changed": list(config.get("changed") or []),
            "decoding": {sheet.set: decoding(config, sheet.set) for sheet in found},
        },
        "grader": next(iter(found[0].every[0].verdicts)),
        **of_sheets(found),
        **{key: kept[key] for key in ("contamination", "agreement")},
        "against": None if against is None else compared(folder, against),
        "prompt": found[0].problems[0].prompt,
        "answers": examples(found),
        "versions": kept["versions"],
        "command": command
        or known
        or shlex.join(["isentropic", "eval", f"subject={subject}", f"evaluation/protocol={name}"]),
    }


def kept_in(file: Path) -> Any:
    """None where it is not there, or is not whole."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def compared(folder: Path, against: Path) -> Card:
    """The paired difference to another evaluation, or why there is none."""
    try:
        sets = [asdict(one) for one in differences(*paired(folder, against))]
    except ValueError as error:
        return {"folder": str(against), "refused": str(error), "sets": []}
    return {"folder": str(against), "refused": None, "sets": sets}


def examples(sheets: Sequence[Sheet]) -> Card:
    """One answer that is right, one that is wrong, and one that was cut off; None where there is none."""
    every = [
        (asked, one)
        for sheet in sheets
        for asked, answers in zip(sheet.problems, sheet.answers, strict=True)
        for one in answers
    ]
    kinds = {
        "right": lambda one: one.right,
        "wrong": lambda one: not one.right and one.finish != "length",
        "cut": lambda one: one.finish == "length",
    }
    return {kind: next((shown(*pair) for pair in every if holds(pair[1])), None) for kind, holds in kinds.items()}


def shown(asked: Asked, one: Answered) -> Card:
    """An answer to be shown, its middle left out where it is longer than HEAD + TAIL characters."""
    left = len(one.text) - HEAD - TAIL
    text = one.text if left <= 0 else f"{one.text[:HEAD]}\n[… {left} characters left out …]\n{one.text[-TAIL:]}"
    return {
        "set": one.set, "row": asked.row, "child": one.child, "question": asked.question, "gold": asked.gold,
        "extracted": one.extracted, "status": one.status, "tokens": one.tokens, "text": text,
    }  # fmt: skip
