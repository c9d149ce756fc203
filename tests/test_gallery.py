"""docs/gallery.md: its pictures are those that docs/gallery.py makes, small, each with a command and how to read it."""

import importlib.util
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "gallery.md").read_text()
PICTURES = re.findall(r"!\[([^\]]+)\]\(gallery/([\w.]+)\)", PAGE)


def script():
    spec = importlib.util.spec_from_file_location("gallery", DOCS / "gallery.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_the_script_makes_and_no_more_is_kept():
    shown = [name for _, name in PICTURES]
    assert len(shown) >= 12 and len(set(shown)) == len(shown)
    assert sorted(Path(name).stem for name in shown) == sorted(script().NAMES)
    assert {path.name for path in (DOCS / "gallery").iterdir()} == set(shown)


def test_pictures_are_small():
    sizes = {name: (DOCS / "gallery" / name).stat().st_size for _, name in PICTURES}
    assert {name: size for name, size in sizes.items() if size > 80_000} == {} and sum(sizes.values()) <= 700_000


def test_each_picture_has_words_for_who_does_not_see_it_and_a_sentence_on_how_to_read_it():
    parts = re.split(r"!\[[^\]]+\]\([^)]+\)\n", PAGE)[1:]
    assert all(len(words) > 15 for words, _ in PICTURES)
    assert [part for part in parts if not re.match(r"\n\S[^\n]{30,}", part)] == []


def test_the_commands_of_the_page_are_those_of_the_script():
    def said(words: list[str]) -> frozenset[str]:
        needed = (word for word in words if not word.startswith("hydra.run.dir"))  # a folder that no reader need name
        return frozenset(word.replace("{runs}", "logs/gallery") for word in needed)

    lines = PAGE.replace(" \\\n   ", "").replace("'", "").splitlines()
    written = {said(line.split()[1:]) for line in lines if line.startswith("isentropic ")}
    made = {name: said(words) for name, (words, _) in script().COMMANDS.items()}
    assert written == set(made.values()) - {made["sweep"]}  # the page has the call with one seed more
