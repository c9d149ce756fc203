from isentropic.task.overlap import Overlap

QUESTION = "Find all real $x$ with $x^2 - 5x + 6 = 0$, and their sum."


def test_a_test_question_is_found_within_a_wrapper():
    overlap = Overlap([QUESTION, "What is 2+3?"])
    wrapped = f"Solve the following problem step by step.\n\n{QUESTION}\n\nRemember to put your answer last."
    assert wrapped in overlap and QUESTION.replace(" ", "  ").upper() in overlap
    assert "What is 2 + 3" in overlap and QUESTION[10:] not in overlap


def test_a_short_question_within_another_is_chance():
    assert "What is 2+3? And what is 4+5, if one adds to both?" not in Overlap(["What is 2+3?"])
