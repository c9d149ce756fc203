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


def cell(row: str) -> str:
    """What a row says of this project."""
    return next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {row} |")).split(" | ")[6]


def test_what_can_be_counted_of_this_project_is_as_the_page_says():
    root, docs = PAGE.parents[1], PAGE.parent
    algorithm = root / "src/isentropic/configs/algorithm"
    recipes, controllers, rules = (len(list((algorithm / name).glob("*.yaml"))) for name in (".", "control", "credit"))
    assert cell("reinforcement learning of groups").startswith(f"{recipes} recipes ")
    assert cell("control of entropy").startswith(f"{controllers} controllers, {rules} credit rules, ")
    assert cell("pages of documentation").startswith(f"{len(list(docs.rglob('*.md')))}: ")
    tests = sum(len(re.findall(r"^def test_", file.read_text(), re.M)) for file in (root / "tests").rglob("test_*.py"))
    said = int(cell("functions named test_").removeprefix("some ").partition(":")[0].replace(",", ""))
    assert abs(said - tests) < 0.05 * tests


def test_seconds_beside_trl_and_verl_are_those_of_the_benchmark():
    measured = (PAGE.parent / "benchmark.md").read_text()
    row = next(line for line in measured.splitlines() if line.startswith("| seconds of a step | "))
    _, _, ours, _, trl, verl = (cell.strip() for cell in row.strip("| ").split("|"))
    quicker = min(float(seconds) for seconds in verl.split(", "))
    ratios = [f"{float(ours) / seconds:.2f}".lstrip("0") for seconds in (float(trl), quicker)]
    assert "takes {} of the seconds of TRL 1.16 and {} of those of verl".format(*ratios) in PAGE.read_text()
    faq = (PAGE.parent / "faq.md").read_text()
    assert f"took {float(ours):.0f} s on one H200, and TRL's {float(trl):.0f} s" in faq
