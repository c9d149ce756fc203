import pytest

from isentropic.reward.format import Format

SETTINGS = {"weight": 1.0, "tags": ["think", "answer"], "opened": False, "pattern": None}
SETTINGS |= {"workers": 1, "timeout": 5.0, "memory": 2.0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<think>so</think><answer>4</answer>", 1),
        ("  <think>so\n</think>\n\n<answer>4</answer>\n", 1),
        ("<think></think><answer></answer>", 1),
        ("<think>so</think> hence <answer>4</answer>", 0),
        ("<answer>4</answer><think>so</think>", 0),
        ("<think>so<answer>4</answer></think>", 0),
        ("<think>so</think><answer>4</answer> or 5", 0),
        ("<think>so</think><answer>4</answer><answer>5</answer>", 0),
        ("<think>so</think><answer>4", 0),
        ("so</think><answer>4</answer>", 0),
        ("4", 0),
        ("", 0),
    ],
)
def test_tags_each_once_and_in_order(answer, text, value):
    assert Format(**SETTINGS)([answer(text)]) == [value]


def test_the_prompt_may_open_the_first_tag(answer):
    opened = Format(**(SETTINGS | {"opened": True}))
    assert opened([answer("so</think><answer>4</answer>"), answer("<think>so</think><answer>4</answer>")]) == [1, 0]


def test_what_has_no_form_is_refused():
    with pytest.raises(ValueError, match=r"reward\.format\.pattern='\(' is no regular expression"):
        Format(**(SETTINGS | {"pattern": "("}))
    with pytest.raises(ValueError, match=r"reward\.format has neither tags nor a pattern"):
        Format(**(SETTINGS | {"tags": []}))


@pytest.mark.slow
def test_a_pattern_that_takes_for_ever_does_not_match(answer):
    pattern = Format(**(SETTINGS | {"pattern": r"(a+)+b|The answer is \d+\."}))
    assert pattern([answer("The answer is 4."), answer("a" * 64), answer("aab"), answer("4")]) == [1, 0, 1, 0]
    pattern.close()
