"""The pages that are written from the recipes are as new as the recipes."""

import pytest
from fixtures.models import unchecked

from isentropic.commands import methods_table
from isentropic.config.recipes import recipes

pytestmark = pytest.mark.slow

AGAIN = "isentropic methods writes it anew"


@pytest.fixture(scope="module")
def page():
    with unchecked():
        return methods_table.page()


def test_the_table_of_methods_is_as_new_as_the_recipes(page):
    assert methods_table.PAGE.read_text() == page, AGAIN


def test_the_readme_s_table_is_as_new_as_the_recipes():
    text = methods_table.README.read_text()
    assert methods_table.readme(text) == text, AGAIN


def rows(page):
    lines = page.partition("## What each does")[2].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return {name.strip("`"): rest for name, *rest in cells if name != "`algorithm=`"}


def test_every_recipe_is_in_both_tables(page):
    names = [recipe.name for recipe in recipes()]
    assert list(rows(page)) == names
    assert all(f"| `{name}` |" in page.partition("## What each does")[0] for name in names)


def test_what_methods_do_is_found_by_running_them(page):
    found = rows(page)
    stare, gspo, dapo = found["stare"], found["gspo"], found["dapo"]
    assert stare == ["`group`, `now.logp`, `reward`", "`now.logp`", "`top_fraction`", "clipping", "", "credit stare"]
    assert gspo[3:5] == ["clipping, ratio", "needed"] and dapo[3:5] == ["clipping", "needed"]
    assert found["stare_adaptive"][4] == "" and found["dr_grpo"][4] == ""


def test_both_files_are_written(tmp_path, monkeypatch, page):
    (tmp_path / "README.md").write_text(f"before\n{methods_table.START}\nold\n{methods_table.END}\nafter\n")
    monkeypatch.setattr(methods_table, "page", lambda: page)  # which takes its time
    methods_table.main(tmp_path / "methods_table.md", tmp_path / "README.md")
    assert (tmp_path / "methods_table.md").read_text() == page
    written = (tmp_path / "README.md").read_text()
    assert written.startswith("before\n") and written.endswith("after\n") and "old" not in written
    assert written.count("arxiv.org") == len(list(recipes()))


def test_a_readme_without_the_marks_is_refused():
    with pytest.raises(ValueError, match="must have the lines <!-- methods"):
        methods_table.readme("# A readme\n")
