"""The token page: answers as heat maps, one token at a time, of runs or under methods."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from isentropic.reporting.render import html
from isentropic.runs.completions import Answer
from isentropic.runs.files import SAMPLES
from isentropic.runs.samples import choose

SIZE = 2_500_000  # bytes of answers on a page
SCRIPTS, STYLES = ["tokens.js"], ["base.css", "tokens.css"]
DATA = re.compile(r'<script type="application/json" id="tk-data">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class Sheet:
    """Answers of one run, or the answers of a file under one method."""

    name: str
    answers: list[Answer]
    reasons: dict[int, str]  # by rollout, why it is shown
    notes: list[str]  # sentences on what is not


def sheets(runs: Sequence[tuple[str, Path]], size: int = SIZE) -> list[Sheet]:
    """Of run folders by name, those with a samples.jsonl, in `size` bytes together."""
    found = [(name, folder / SAMPLES) for name, folder in runs if (folder / SAMPLES).is_file()]
    made: list[Sheet] = []
    for name, file in found:
        try:
            chosen = choose(file, size // len(found))
        except ValueError as error:
            made.append(Sheet(name, [], {}, [f"{error}."]))
            continue
        made.append(Sheet(name, chosen.answers, chosen.reasons, chosen.notes))
    return made


def write(shown: Sequence[Sheet], out: Path, title: str, kind: str = "Run") -> Path:
    """One page of its own; `kind` is what its sheets are. Raises ValueError where there is nothing to show."""
    if not any(sheet.answers for sheet in shown):
        raise ValueError(f"{out} would be empty: no answers were given")
    return html.write("tokens.html", out, SCRIPTS, STYLES, title=title, tokens=payload(shown, kind))


def payload(shown: Sequence[Sheet], kind: str) -> dict[str, object]:
    """What the page's script reads."""
    return {"kind": kind, "sheets": [asdict(sheet) for sheet in shown]}


def add(sheet: Sheet, page: Path) -> Path:
    """A page of one method, or one more on a page that is there; the sheet of the same name gives way.

    Raises ValueError for a file that is not such a page.
    """
    before = load(page) if page.exists() else []
    names = [one.name for one in before]
    place = names.index(sheet.name) if sheet.name in names else len(names)
    return write([*before[:place], sheet, *before[place + 1 :]], page, "Answers, token by token", "Method")


def load(page: Path) -> list[Sheet]:
    found = DATA.search(page.read_text(encoding="utf-8", errors="replace"))
    if found is None:
        raise ValueError(f"{page} is there and no page of tokens; give a new name, or that of such a page")
    sheets = json.loads(found[1])["sheets"]
    return [
        Sheet(one["name"], one["answers"], {int(step): why for step, why in one["reasons"].items()}, one["notes"])
        for one in sheets
    ]
