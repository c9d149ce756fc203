"""Every link within the project leads to a file that is there, and to a heading that the file has."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GIT = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
LISTED = subprocess.run(GIT, cwd=ROOT, capture_output=True, text=True)
PAGES = [name for name in LISTED.stdout.split("\0") if name.endswith(".md") and (ROOT / name).is_file()]
CODE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1[ ]*$|`[^`\n]+`", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)(?:\s\"[^\"]*\")?\)|<img[^>]+src=\"([^\"]+)\"")


def links(text: str) -> list[str]:
    found = [first or second for first, second in LINK.findall(CODE.sub("code", text))]
    return [link for link in found if not re.match(r"[a-z]+:", link)]


@cache
def anchors(page: Path) -> set[str]:
    """As forges and the site make them of headings: lower case, without punctuation, with hyphens for blanks."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1[ ]*$", "", page.read_text(), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+?)\s*$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 1
        while (unique := name if number == 1 else f"{name}-{number - 1}") in found:
            number += 1
        found.add(unique)
    return found


def wrong(link: str, page: Path) -> str:
    """What is wrong with a link on a page; nothing if it leads somewhere."""
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return f"{link}: there is no {target}"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"{link}: {target.name} has the headings {sorted(anchors(target))}"
    return ""


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str):
    page = ROOT / name
    assert [fault for link in links(page.read_text()) if (fault := wrong(link, page))] == []


def test_files_that_are_named_are_there():
    """Within backquotes, by their way from the root; but for what a reader is to write, or a run leaves."""
    files = set(LISTED.stdout.split("\0"))
    there = files | {str(folder) for name in files for folder in Path(name).parents}
    tops = {name.partition("/")[0] for name in files if "/" in name}
    ones_own = re.compile(r"(\b|_)mine\b|^configs/local/|^logs/")
    named = {
        (page, word.rstrip("/"))
        for page in PAGES
        for word in re.findall(r"`([\w.-]+/[\w./-]+)`", (ROOT / page).read_text())
        if word.partition("/")[0] in tops and not ones_own.search(word)
    }
    assert len(named) > 40
    assert sorted((page, name) for page, name in named if name not in there) == []


def test_no_word_is_cut_at_the_end_of_a_line():
    cut = re.compile(r"[a-z]-\n[a-z].*")  # which a page would show with a blank inside
    assert [(name, at[0]) for name in PAGES for at in cut.finditer(CODE.sub("", (ROOT / name).read_text()))] == []


def test_a_page_or_heading_that_is_not_there_is_found_out():
    page = ROOT / "docs" / "metrics.md"
    assert links("see [this](nowhere.md), `[not](this.md)` and [that](https://a.b)") == ["nowhere.md"]
    assert "there is no" in wrong("nowhere.md", page) and "has the headings" in wrong("#nowhere", page)
    assert wrong("#names-of-verl-and-trl", page) == "" and wrong("statistics.md#power", page) == ""
