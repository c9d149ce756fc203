import pytest

from isentropic.runs.settings import flat, items

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
    "text, found",
    [
        ("a: |\n  several\n  lines\nb: 1\n", {"a": "several\nlines\n", "b": 1}),
        ("a: {b: 1, c: [2]}\n", {"a.b": 1, "a.c": "[2]"}),
        ("a:\n- b: 1\n  c: 2\n", {"a": "[{'b': 1, 'c': 2}]"}),
        ("a: &x 1\nb: *x\n", {"a": 1, "b": 1}),
        ("a: 1.0e-05\nb: ~\nc: '7'\n", {"a": 1e-5, "b": None, "c": "7"}),
    ],
)
def test_all_that_yaml_says_is_read(text, found):
    assert flat(text) == found


@pytest.mark.parametrize("text", ["a: [1", "- a\n- b\n", "just words\n", ""])
def test_what_is_no_mapping_is_an_error(text):
    with pytest.raises(ValueError, match="no YAML"):
        flat(text)


def test_a_list_of_overrides_is_read_and_one_cut_short_is_an_error():
    assert items("- a=1\n- b\n") == ["a=1", "b"] and items("a: 1") == []
    with pytest.raises(ValueError, match="no YAML"):
        items("- 'a=1\n")
