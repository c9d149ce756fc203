import pytest

from isentropic.config.recipes import recipes


@pytest.fixture(scope="module")
def found():
    return {recipe.name: recipe for recipe in recipes()}


def test_a_recipe_is_its_header_and_what_it_changes(found):
    stare = found["stare"]
    assert (stare.title, stare.source, stare.grade, stare.base) == (
        "STARE, variant O1",
        "arXiv:2606.19236",
        "A",
        "dapo",
    )
    assert stare.new == ["control/gate.py", "credit/stare.py"] and stare.settings == []
    assert stare.own == {"control", "credit stare"}
    assert stare.link == "[2606.19236](https://arxiv.org/abs/2606.19236)"


def test_a_recipe_may_only_change_settings(found):
    assert found["stare_c2"].new == [] and found["stare_c2"].settings == ["credit.stare.damp=0.9"]
    assert found["dr_grpo"].settings == ["advantage.divide_by_std=false"]
    assert found["dapo"].new == ["aggregation/token_mean.py"] and found["dapo"].settings == ["clipping.high=0.28"]


def test_the_first_of_all_stands_on_nothing(found):
    assert found["grpo"].base == "" and len(found["grpo"].new) == 5


def test_a_source_that_is_no_paper_names_the_nearest(found):
    tis = found["tis"]
    assert tis.title == "TIS, truncated importance sampling" and tis.what.endswith("over the sampler's, at most 2")
    assert tis.link == "F. Yao et al. 2025; cf. [2510.26788](https://arxiv.org/abs/2510.26788)"


def test_every_recipe_has_a_grade_and_does_something_new(found):
    assert [name for name, recipe in found.items() if recipe.grade not in set("ABC?") or not recipe.what] == []
    assert [name for name, recipe in found.items() if not recipe.new and not recipe.settings] == []


def test_a_header_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "mine.yaml").write_text("# MINE: no paper\n")
    with pytest.raises(ValueError, match=r"mine\.yaml must open with `# NAME \(arXiv"):
        list(recipes(tmp_path))
