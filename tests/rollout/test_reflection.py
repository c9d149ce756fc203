import pytest

from isentropic.rollout.reflection import reflects


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
