"""Each sentence that a page quotes of an error can still be said."""

import re
from functools import cache
from pathlib import Path

import pytest
from errors import page, sentences

DOCS = Path(__file__).resolve().parents[2] / "docs"
QUOTED = [
    (name, quoted)
    for name in ("troubleshooting.md", "resuming.md", "servers.md")
    for quoted in re.findall(r"^\| `([^`|]+)` \|", (DOCS / name).read_text(), re.M)
    if " " in quoted
]


@cache
def source() -> list[str]:
    return [one.text for folder in ("src/isentropic", "requirements") for one in sentences(DOCS.parent / folder)]


def can_be(quoted: str, said: str) -> bool:
    """Whether what is quoted and the template name the same words, each ... standing for any."""
    return words(quoted) == words(said) or bool(re.fullmatch(pattern(quoted), said))


def words(text: str) -> list[str]:
    return [part for part in re.split(r"\.{3,}", text) if part]


def pattern(text: str) -> str:
    return ".+".join(re.escape(part) for part in re.split(r"\.{3,}", text))


def test_pages_quote_sentences():
    assert len(QUOTED) > 50


@pytest.mark.parametrize(("name", "quoted"), QUOTED)
def test_a_quoted_sentence_is_in_the_source(name: str, quoted: str):
    assert any(can_be(quoted, one) for one in source()), f"{name} quotes what nothing says: {quoted}"


def test_what_nothing_says_is_found_out():
    assert not any(can_be("rollout.batch_size=... is a pity", one) for one in source())


def test_the_page_of_all_sentences_holds_each_of_them():
    text = page()
    assert all(one.text in text for one in sentences()) and len(source()) > 400
