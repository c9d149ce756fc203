"""The card of an evaluation to be read: `card.html`, which opens from disk, and `card.md`; beside them `card.json`."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isentropic.evaluation.card import CARD, Card, card_of
from isentropic.evaluation.pass_curve import Curve, curve
from isentropic.reporting.render import html
from isentropic.reporting.render.markdown import inline
from isentropic.runs.files import write_whole

# what would not be seen, or would change how what follows is seen: controls, directions, joiners, halves of pairs
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
HASH = re.compile(r"([0-9a-f]{16})[0-9a-f]{48}")  # of which the first quarter tells one from another
HEADS = ("set", "avg@k", "pass@k", "maj@k", "tokens", "truncated", "unparseable", "contaminated")


@dataclass(frozen=True)
class Table:
    """Rows of cells, each of lines."""

    head: Sequence[str]
    rows: list[list[list[str]]]


def write_card(folder: Path, command: str | None = None, against: Path | None = None) -> Card:
    """card.json, card.md and card.html. Raises ValueError for a folder that is none or is not finished."""
    card = card_of(folder, command, against)
    write_whole(folder / CARD, json.dumps(card, indent=1, allow_nan=False) + "\n")
    write_whole(folder / "card.md", markdown(card))
    html.write("card.html", folder / "card.html", [], ["base.css", "report.css", "card.css"], **parts(card))
    return card


def parts(card: Card) -> dict[str, Any]:
    """What the page is filled with: text that shows all that is in it."""
    return {
        "title": plain(f"{short(card['subject'])} by {card['protocol']['name']}"),
        "facts": [plain(one) for one in facts(card)],
        "command": plain(card["command"]),
        "warnings": [plain(one) for one in card["warnings"]],
        "scores": scores(card),
        "mean": mean(card),
        "curve": picture(card),
        "against": differences(card),
        "agreement": [plain(one) for one in agreements(card)],
        "protocol": [plain(one) for one in protocol(card)],
        "prompt": plain(card["prompt"]),
        "answers": [(kind, plain(told(one)), plain(one["text"])) for kind, one in card["answers"].items() if one],
        "versions": [(plain(key), plain(value)) for key, value in leaves(card["versions"] or {})],
    }


def plain(text: object) -> str:
    """Each sign that would not be seen as its number."""
    return UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", str(text))


def facts(card: Card) -> list[str]:
    """Subject, hash of weights, protocol and grader."""
    weights = card["weights"]
    shown = HASH.sub(r"\1", str(weights)) if weights else "of unknown hash"
    return [
        str(card["subject"]),
        f"weights {shown}",
        f"protocol {card['protocol']['name']}"
        + (f", grade {card['protocol']['grade']}" if card["protocol"]["grade"] else "")
        + (", with other settings than its own" if card["protocol"]["changed"] else ""),
        f"judged by {card['grader']}",
    ]


def short(subject: str) -> str:
    """A run and its checkpoint, or a model's own name."""
    parts = subject.rstrip("/").split("/")
    run = parts[-3:-2] if parts[-2:-1] == ["checkpoints"] else []
    return ", ".join([*run, parts[-1]]) or subject


def protocol(card: Card) -> list[str]:
    """Source, assumptions, and the decodings with the sets that they are of."""
    made = card["protocol"]
    lines = [f"Source: {made['source']}"] if made["source"] else []
    lines += [f"Assumed: {key}: {value}" for key, value in made["assumed"].items()]
    lines += [f"Not as the protocol has it: {one}" for one in made["changed"]]
    lines += [str(made["says"])] if made["says"] else []
    sets: dict[str, list[str]] = {}
    for name, decoding in made["decoding"].items():
        if decoding:
            told = ", ".join(f"{key} {value}" for key, value in decoding.items() if key != "_target_")
            sets.setdefault(told, []).append(name)
    lines += [f"{', '.join(names)}: {told}" for told, names in sets.items()]
    return lines


def scores(card: Card) -> Table:
    """The table of scores, a row per set."""
    seen = (card["contamination"] or {}).get("sets", {})
    return Table(
        HEADS, [[[plain(line) for line in cell] for cell in row(n, s, seen.get(n))] for n, s in card["sets"].items()]
    )


def row(name: str, one: Card, seen: Card | None) -> list[list[str]]:
    """Cells of a set, each of one or more lines: score, then its errors or interval."""
    majority = one["maj"][-1] if one["maj"] else None
    tokens = [f"{kind} {number(one['tokens'][kind], 0)}" for kind in ("right", "wrong")]
    return [
        [name, f"{one['problems']} problems"],
        [f"@{one['k']}: {number(one['avg']['value'])}", *errors(one["avg"])],
        [f"@{one['k']}: {number(one['pass'][-1]['value'])}", interval(one["pass"][-1])],
        [f"@{one['k']}: {number(majority['value'])}", interval(majority)] if majority else ["none"],
        [number(one["tokens"]["all"], 0), *tokens],
        [f"{one['truncated']:.1%}"],
        [f"{one['unparseable']:.1%}", *([f"{one['timeouts']} timeouts"] if one["timeouts"] else [])],
        contaminated(seen),
    ]


def errors(average: Card) -> list[str]:
    """Both errors of avg@k: over problems, and given these problems; unknown where one cannot be had."""
    kinds = {"error_over_problems": "over problems", "error_given_problems": "given these problems"}
    return [
        f"unknown {words}" if average[key] is None else f"± {number(average[key])} {words}"
        for key, words in kinds.items()
    ]


def contaminated(seen: Card | None) -> list[str]:
    """Problems that training holds, and the score without them."""
    if seen is None:
        return ["not known"]
    score = seen.get("score") or {}
    without = f"{number(score.get('clean'))} without them" if seen["any"] and score else ""
    return [f"{len(seen['any'])} of {seen['problems']}", *([without] if without else [])]


def mean(card: Card) -> str:
    """Empty for a single set."""
    found = card["mean"]
    if found["sets"] < 2:
        return ""
    told = ", ".join(errors(found))
    return f"Mean of avg@k over {found['sets']} sets, each weighing the same: {number(found['value'])}, {told}."


def number(value: float | None, digits: int = 3) -> str:
    """To so many places, thousands apart; "unknown" for None."""
    return "unknown" if value is None else f"{value:,.{digits}f}"


def interval(one: Card) -> str:
    """95 %, or that there is none, as of one problem."""
    return "no interval" if one["low"] is None else f"[{one['low']:.3f}, {one['high']:.3f}]"


def picture(card: Card) -> Curve | None:
    """None where no set has two answers of each problem."""
    lines = {plain(name): one["pass"] for name, one in card["sets"].items() if one["k"] > 1}
    return curve(lines) if lines else None


def differences(card: Card) -> dict[str, Any] | None:
    """The table against another evaluation, or why they may not be compared; None where none was named."""
    found = card["against"]
    if found is None:
        return None
    head = ("set", "this", "that", "difference", "p after Holm", "would be found", "verdict")
    rows = [
        [
            [plain(one["set"])], [number(one["ours"])], [number(one["theirs"])], [f"{one['mean']:+.3f}", interval(one)],
            [f"{one['corrected']:.2g}", one["test"]], [number(one["smallest"])], [one["verdict"]],
        ]
        for one in found["sets"]
    ]  # fmt: skip
    refused = plain(found["refused"]) if found["refused"] else None
    return {"folder": plain(found["folder"]), "refused": refused, "table": Table(head, rows)}


def agreements(card: Card) -> Iterator[str]:
    """A sentence for each pair of graders."""
    for one in card["agreement"] or []:
        kappa = one["kappa"] if isinstance(one["kappa"], str) else number(one["kappa"])
        yield (
            f"{' and '.join(one['graders'])} agree on {one['agreement']:.1%} of {one['answers']:,} answers,"
            f" kappa {kappa}."
        )
        for name in one.get("upper") or {}:
            yield f"{name} was not asked about every answer; a score by it is an upper reading."


def told(one: Card) -> str:
    """One shown answer in a sentence: what was read out of it, and what is right."""
    found = "no answer" if one["extracted"] is None else one["extracted"]
    return (
        f"{one['set']}, problem {one['row']}, answer {one['child']}: {found}, where {one['gold']} is right;"
        f" {one['tokens']} tokens, {one['status']}"
    )


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Values of nested mappings, by keys with dots."""
    if isinstance(node, dict) and node:
        for name, value in node.items():  # pyright: ignore[reportUnknownVariableType]
            yield from leaves(value, f"{key}.{name}" if key else str(name))
    else:
        yield key, "unknown" if node is None else node


def markdown(card: Card) -> str:
    """The text of card.md, with what models and files wrote escaped."""
    made = parts(card)
    shown = [f"# {inline(made['title'])}", fenced(made["command"]), listed(made["facts"])]
    shown += [f"**{inline(one)}**" for one in made["warnings"]]
    shown += ["## Scores", table(made["scores"]), *([made["mean"]] if made["mean"] else [])]
    shown += ["## pass@k", curves(card)]
    if against := made["against"]:
        shown += [f"## Against {inline(against['folder'])}"]
        shown += [inline(against["refused"])] if against["refused"] else [table(against["table"])]
    shown += ["## Graders", listed(made["agreement"])] if made["agreement"] else []
    shown += ["## Protocol", listed(made["protocol"])] if made["protocol"] else []
    shown += ["## First prompt, as sent", fenced(made["prompt"]), "## Answers"]
    for kind, about, text in made["answers"]:
        shown += [f"### {kind}", inline(about), fenced(text)]
    shown += ["## Versions", listed([f"{key}: {value}" for key, value in made["versions"]])]
    return "\n\n".join(shown) + "\n"


def curves(card: Card) -> str:
    """pass@k over k as a Markdown table, a row per set."""
    rows = [[[plain(n)], *([f"@{p['k']}: {p['value']:.3f}"] for p in one["pass"])] for n, one in card["sets"].items()]
    widest = max(map(len, rows))
    return table(Table(["set", *[""] * (widest - 1)], [[*one, *[[""]] * (widest - len(one))] for one in rows]))


def table(made: Table) -> str:
    """Markdown; lines of a cell are joined by commas."""
    rows = [[", ".join(filter(None, cell)) for cell in one] for one in made.rows]
    return "\n".join(
        f"| {' | '.join(map(inline, one))} |" for one in [list(made.head), ["---"] * len(made.head), *rows]
    ).replace("| \\-", "| -")


def listed(sentences: Sequence[str]) -> str:
    """Markdown bullets, or one that says there is nothing."""
    return "\n".join(f"- {inline(one)}" for one in sentences) or "- Nothing."


def fenced(text: str) -> str:
    """In a fence that nothing in it closes."""
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}text\n{text}\n{ticks}"
