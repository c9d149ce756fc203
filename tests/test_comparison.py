"""docs/comparison.md: what it names of this project is there, and what it names of others is of a state it states."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "comparison.md"
LINKS = re.findall(r"\[[^\]]+\]\(([^)]+)\)", PAGE.read_text())
OTHERS = (
    "huggingface/trl",
    "verl-project/verl",
    "PrimeIntellect-ai/prime-rl",
    "NovaSky-AI/SkyRL",
    "allenai/open-instruct",
)


def test_every_file_of_this_project_that_it_names_is_there():
    ours = [link for link in LINKS if not link.startswith("https://")]
    assert len(ours) > 20
    assert [link for link in ours if not (PAGE.parent / link).exists()] == []


def test_every_file_of_others_is_named_at_the_state_that_was_read():
    known = dict(re.findall(r"(TRL|verl|prime-rl|SkyRL|open-instruct)\s+`(\w{9})`", PAGE.read_text()))
    states = dict(zip(OTHERS, known.values(), strict=True))
    theirs = [link for link in LINKS if link.startswith("https://")]
    assert len(theirs) > 80
    pinned = re.compile(r"https://github\.com/([^/]+/[^/]+)/(?:blob|tree)/(\w{9})/.+")
    found = [pinned.fullmatch(link) for link in theirs]
    assert [link for link, one in zip(theirs, found, strict=True) if not one or states[one[1]] != one[2]] == []
    assert {one[1] for one in found if one} == set(OTHERS)


def test_every_row_speaks_of_all_six():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert {line.count(" | ") for line in rows} == {6} and all("|  |" not in line for line in rows[1:])
