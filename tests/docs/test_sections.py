"""The order of the site: docs/site/sections.yaml names every page of docs/, and nothing that is not there."""

from collections import Counter

import pytest
from stage import CONFIGS, DOCS, ELSEWHERE, MADE, pages, sections

import configs

SECTIONS = ["Start", "Concepts", "Tutorials", "How to", "Reference", "Results", "Help", "Project"]
LISTED = [page for listed in sections().values() for page in listed]


def test_the_sections_stand_in_their_order():
    assert list(sections()) == SECTIONS


@pytest.mark.parametrize("page", [page for page in pages() if page != "index"])
def test_a_page_is_in_a_section(page: str):
    assert page in LISTED, f"docs/{page}.md is in no section of docs/site/sections.yaml"


def test_no_page_is_listed_twice_or_without_being_there():
    made = {*MADE, *(page.removesuffix(".md") for page in ELSEWHERE.values())}
    assert [page for page, count in Counter(LISTED).items() if count > 1] == []
    assert [page for page in LISTED if page not in made and not (DOCS / f"{page}.md").is_file()] == []


def test_every_file_of_configs_has_a_place_in_the_reference():
    text = "\n".join(configs.pages(CONFIGS).values())
    files = [file for file in CONFIGS.rglob("*.yaml") if "local" not in file.relative_to(CONFIGS).parts]
    labels = [configs.label(file.relative_to(CONFIGS)) for file in files]
    assert [label for label in labels if text.count(f"({label})=\n") != 1] == []


def test_a_setting_of_the_reference_has_its_default_and_its_comment():
    made = configs.pages(CONFIGS)
    assert "| `rollout.group_size` | `8` |" not in made["rollout"]  # keys are those of the file
    assert "| `group_size` | `8` | completions of one prompt |" in made["rollout"]
    assert "| `stare.top` | `0.1` | share of tokens, by surprisal, on either side |" in made["algorithm"]
