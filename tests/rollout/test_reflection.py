import pytest
from hypothesis import given
from hypothesis import strategies as st

from isentropic.rollout.reflection import MARKERS, reflects

WORDS = (
    *(
        "Wait",
        "hold",
        "on",
        "hmm",
        "hmmmm",
        "second",
        "thought",
        "double",
        "double-",
        "check",
        "let's",
        "let us",
        "let me",
    ),
    *("re-", "re", "verify", "examine", "consider", "think", "again", "try", "start", "over", "evaluates", "calculate"),
    *(
        "recomputed",
        "reassessing",
        "that's",
        "this is",
        "wrong",
        "incorrect",
        "not right",
        "I made",
        "I have made",
        "a",
    ),
    *("an", "mistake", "error", ".", ",", "!", "\n", ""),
)


@pytest.mark.parametrize(
    "text",
    [
        "3*8=24. Wait, that uses the 3 twice.",
        "So x = 4. Wait that cannot be.",
        "Hmm, the sum is odd.",
        "Let me check: 4 * 6 = 24.",
        "let's double-check this",
        "I will re-check the second step.",
        "Rechecking gives 12.",
        "No, that\u2019s wrong: 7 is left.",
        "I made a mistake above.",
    ],
)
def test_words_of_doubt_are_markers(text):
    assert reflects(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3*8=24;5-2=3;24+3=27",
        "He had to wait for 5 minutes, then 3 more: 8.",
        "The check was for 20 dollars.",
        "She waits 2 hours. The waiter earns 5.",
        "Research shows 12.",
    ],
)
def test_a_story_about_waiting_is_none(text):
    assert not reflects(text)


@given(st.lists(st.sampled_from(WORDS), max_size=6), st.sampled_from([" ", ""]))
def test_the_short_way_past_texts_without_markers_misses_none(words, between):
    text = between.join(words)
    assert reflects(text) == (MARKERS.search(text) is not None)
