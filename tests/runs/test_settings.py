import pytest
import yaml

from isentropic.runs import settings
from isentropic.runs.settings import flat, items, scalar

TEXT = """\
seed: 0
tags: []
names:
- a
- b c
nested:
  deep:
    lr: 1.0e-05
    flag: false
    nothing: null
    text: 'no: 1'
  empty: {}
  list:
  - 1
  - x
"""
FLAT = {
    "seed": 0, "tags": "[]", "names": "[a, b c]", "nested.deep.lr": 1e-5, "nested.deep.flag": False,
    "nested.deep.nothing": None, "nested.deep.text": "no: 1", "nested.empty": None, "nested.list": "[1, x]",
}  # fmt: skip


def test_nested_settings_get_dotted_keys():
    assert flat(TEXT) == FLAT


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "a: |\n  several\n  lines\nb: 1\n",
        "a: {b: 1, c: [2]}\n",
        "a: long words\n  that go on: no\n",
        "a: 'quoted\n\n  over lines'\n",
        "a:\n- b: 1\n  c: 2\n",
        "a: &x 1\nb: *x\n",
        "# a comment\na: 1\n",
        "a:\n    b: 1\n",
    ],
)
def test_line_by_line_never_reads_what_the_parser_would_not(text):
    quick = settings._by_line(text)
    try:
        slow = settings._by_parser(text)
    except ValueError:
        slow = None
    assert quick in (None, slow)


def test_what_hydra_writes_is_read_line_by_line():
    assert settings._by_line(TEXT) == settings._by_parser(TEXT) == FLAT


@pytest.mark.parametrize("text", ["a: [1", "- a\n- b\n", "just words\n", ""])
def test_what_is_no_mapping_is_an_error(text):
    with pytest.raises(ValueError, match="no YAML"):
        flat(text)


def test_a_value_is_what_yaml_says(tmp_path):
    for text in ("1", "1.5", "true", "null", "abc", "'7'", "~"):
        assert scalar(text) == yaml.safe_load(text)
    assert items("- a=1\n- b\n") == ["a=1", "b"] and items("a: 1") == []
