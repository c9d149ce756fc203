import pytest

from isentropic.task.chats import asked, plain


def test_the_last_message_by_the_user_and_those_before_it():
    chat = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    assert asked(chat, "row 1") == ("Q", ({"role": "system", "content": "S"},))
    assert asked("Q", "row 1") == ("Q", ())


def test_answers_are_texts_lists_or_chats():
    assert [plain(one, "row 1") for one in (["1", 2], 7, "x")] == ["1, 2", "7", "x"]
    assert plain([{"role": "assistant", "content": "A"}], "row 1") == "A"


@pytest.mark.parametrize("value", [{"value": "7"}, [{"value": "7"}], [["7"]], b"7", float("inf"), [float("-inf")]])
def test_what_is_no_answer_is_said_with_its_row(value):
    with pytest.raises(ValueError, match=r"row 1 has .* as its answer, where a text, a number or a list of them must"):
        plain(value, "row 1")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "row 1 has an empty question"),
        (" \n", "row 1 has an empty question"),
        ([], "row 1 has an empty question"),
        ([{"role": "user"}], "row 1 has an empty question"),
        ([{"role": "assistant", "content": "A"}], "row 1 has a chat in which the user says nothing"),
        ({"text": "Q"}, r"row 1 has {'text': 'Q'} as its question, where a text or a list of messages must be"),
        (b"\xff", "row 1 has b'.xff' as its question, where a text"),
        ([{"content": "Q"}], r"row 1 has \[{'content': 'Q'}\] as its question, where a text"),
        (float("inf"), "row 1 has inf as its question, where a text"),
    ],
)
def test_what_asks_nothing_is_said_with_its_row(value, message):
    with pytest.raises(ValueError, match=message):
        asked(value, "row 1")
