"""Every causal family of transformers that can be made tiny is read as its own forward reads it, or refused."""

from pathlib import Path

import pytest
import transformers

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
AGAIN = "python benchmarks/families.py --page writes it anew"


@pytest.fixture(scope="module")
def families():
    import importlib.util

    spec = importlib.util.spec_from_file_location("families", ROOT / "benchmarks/families.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(families):
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    measured = list(families.families([]))
    transformers.logging.set_verbosity(before)
    return measured


def test_log_probs_are_those_of_the_models_own_forward(families, found):
    read = [one for one in found if one.rows in ("packed", "padded")]
    assert [(one.name, one.off) for one in read if not one.off <= families.CLOSE] == []
    assert [one.name for one in read if not one.gradient < 1e-3] == []
    assert len(read) >= 45


def test_what_is_refused_or_padded_is_so_for_a_reason(found):
    assert [one.name for one in found if one.rows != "packed" and not one.why] == []


def test_families_that_are_wrong_without_the_check_are_handled(found):
    rows = {one.name: (one.rows, one.prompts, one.head, one.mode) for one in found}
    for name in ("mistral", "mixtral", "phi3", "starcoder2", "qwen2", "gemma3_text"):  # windows
        assert rows[name] == ("packed", "each", "", "")
    assert rows["nemotron"][0] == "padded"  # attention of its own
    for name in ("cohere", "granite", "nanochat"):  # heads that scale or cap
        assert rows[name] == ("packed", "shared", "own", "")
    assert rows["phimoe"][3] == "eval"  # experts drawn at random
    assert rows["llama"] == ("packed", "shared", "", "")


def test_the_page_is_as_new_as_what_is_measured(families, found):
    text = families.PAGE.read_text()
    if families.versions() not in text:
        pytest.skip(f"the page is of another version than {families.versions()}")
    assert text == families.page(found), AGAIN
