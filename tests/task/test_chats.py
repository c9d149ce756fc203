from isentropic.task.chats import asked, plain


def test_the_last_message_by_the_user_and_those_before_it():
    chat = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    assert asked(chat, "row 1") == ("Q", ({"role": "system", "content": "S"},))
    assert asked("Q", "row 1") == ("Q", ())


def test_answers_are_texts_lists_or_chats():
    assert plain(["1", 2]) == "1, 2" and plain(7) == "7" and plain("x") == "x"
    assert plain([{"role": "assistant", "content": "A"}]) == "A"
