# ruff: noqa: RUF001  signs of other scripts are what this is about
import pytest

from isentropic.task.overlap import Near, Overlap, signless, told, words
from isentropic.task.overlap import overlap as kept_out

QUESTION = "Find all real $x$ with $x^2 - 5x + 6 = 0$, and their sum."


def test_a_test_question_is_found_within_a_wrapper():
    overlap = Overlap([QUESTION, "What is 2+3?"])
    wrapped = f"Solve the following problem step by step.\n\n{QUESTION}\n\nRemember to put your answer last."
    assert wrapped in overlap and QUESTION.replace(" ", "  ").upper() in overlap
    assert "What is 2 + 3" in overlap and QUESTION[10:] not in overlap


SET = r"Solve $\frac{x^2}{2} + \left(x - 3\right) < 50$ for a café of 12 tables."


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x^2", "x²"),
        ("50", "５０"),
        ("é", "e\u0301"),
        (r"\frac", r"\dfrac"),
        (r"\left(x - 3\right)", "(x-3)"),
        (" < ", r" \quad < \hspace{2mm} "),
        (" < ", r"\,<~"),
        (r"$\frac", r"$\displaystyle \frac"),
        ("<", "&lt;"),
    ],
)
def test_a_question_is_the_same_however_unicode_and_latex_set_it(old, new):
    assert f"Solve this, step by step: {SET.replace(old, new)} Put it in a box." in Overlap([SET])
    assert SET in Overlap([SET.replace(old, new)])


@pytest.mark.parametrize(
    "wrapper",
    [
        "Solve the following step by step.\n\n{}\n\nRemember to put your answer on its own line.",
        "Question: {}\nLet us think.",
        "### Problem 7:\n{}\n### Answer",
        "Q. {}",
        "问题：{}\n答案：",
    ],
)
def test_a_short_question_in_lines_of_its_own_is_found(wrapper):
    for short in ("What is 2+3?", r"Compute $\sin 60^\circ$."):
        assert wrapper.format(short) in Overlap([short])
    assert wrapper.format("Find x.") not in Overlap(["Find x."])  # of any figure


def test_a_question_of_an_earlier_turn_is_found():
    chat = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "5"}]
    assert told("Are you sure?", chat) in Overlap([QUESTION]) and told("Are you sure?", []) == "Are you sure?"


def test_a_short_question_within_another_is_chance():
    assert "What is 2+3? And what is 4+5, if one adds to both?" not in Overlap(["What is 2+3?"])


WORDS = "Let ABCD be a square of side 12 and let E be the midpoint of BC; find the area of AEC"


def test_a_question_of_which_half_of_the_runs_of_words_stand_in_one_training_question_is_near():
    near = Near([WORDS])
    assert WORDS.replace("AEC", "AED").replace(" ", "  ") in near
    assert WORDS.replace("12", "30") not in near  # the number stands in 8 of 14 runs
    assert WORDS[: len(WORDS) // 2] not in near and "Is it so?" not in near
    assert f"Solve this, step by step.\n{WORDS.upper()}\nPut your answer in a box." in near


def test_runs_that_stand_in_several_training_questions_are_not_added_up():
    near = Near([WORDS])
    first, second = " ".join(words(WORDS)[:13]), " ".join(words(WORDS)[-13:])  # 6 of 14 runs each
    assert first not in near and second not in near and f"{first} {second}" in near


def test_of_a_short_question_all_words_must_stand_there_in_a_row():
    near = Near(["What is 2+3?", ""])
    assert near.found("Tell me: what is 2 + 3, and why?") == {0}
    assert "What is 2 times 3?" not in near and "" not in near


def test_an_instruction_that_all_tests_share_is_no_overlap():
    told = "Solve the following problem step by step and put your answer in a box at the end. {} Remember the box."
    tests = [told.format(f"What is the {i}th prime that is no sum of two squares?") for i in range(6)]
    assert told.format("Which country is the largest of Africa, by its area?") not in Near(tests)
    assert told.format("What is the 3th prime that is no sum of two squares?") in Near(tests)


def test_words_are_letters_and_digits_of_any_script_without_latex_spaces():
    assert words(r"x_1\,=\quad Ω²\hspace{3pt}+ дом３~a") == ["x", "1", "ω", "2", "дом", "3", "a"]
    assert words(r"\quadratic") == ["quadratic"]


def test_tests_that_were_found_are_told_apart():
    overlap = Overlap([QUESTION, "What is 2+3?"])
    assert set(overlap.found(f"Once more: {QUESTION}")) == {signless(QUESTION)}


def test_what_training_leaves_out_is_the_same_and_if_asked_for_the_near():
    assert [type(one) for one in kept_out([QUESTION], False)] == [Overlap]
    assert [type(one) for one in kept_out([QUESTION], True)] == [Overlap, Near]
