"""All that a report says, before it is a page, a text or a table; `report.md` and `report.html` are written from it."""

from dataclasses import dataclass
from pathlib import Path

from isentropic.reporting.figures import Picture
from isentropic.reporting.groups import Group
from isentropic.reporting.odd import Odd
from isentropic.reporting.runs import Run
from isentropic.reporting.verdict import Verdict


@dataclass(frozen=True)
class Table:
    name: str  # of files and anchors
    title: str
    note: str  # a paragraph on how to read it; may be empty
    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Report:
    title: str
    command: str  # that writes this report again
    folders: list[Path]
    runs: list[Run]
    names: dict[Path, str]  # of a run's folder: its path below what the runs share
    groups: list[Group]
    settings: list[str]  # the keys by which groups differ
    summary: list[str]  # sentences: what differs
    cautions: list[str]  # sentences: what cannot be claimed, and why
    tables: list[Table]
    pictures: list[Picture]
    verdicts: dict[Path, Verdict]  # by the folder of the run
    odd: list[Odd]
