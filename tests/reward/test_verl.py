import pytest

from isentropic.reward.functions import function_at
from isentropic.reward.total import Rewards
from isentropic.reward.verl import Verl


def rewards(path, **settings):
    defaults = {"timeout": 30.0, "on_error": "stop", "isolated": False, "workers": 1, "memory": 4.0}
    return Rewards({"verl": Verl(weight=1.0, function=path, **(defaults | settings))})


def test_a_function_as_verl_takes_it(functions, answer):
    made = rewards(functions("compute_score"))
    answers = [answer("four", data_source="sums", extra_info={"index": 3}), answer("five", level=2)]
    assert made(answers).by_name == {"verl": [1.0, 0.0]}
    assert function_at(functions("compute_score")).__globals__["SEEN"] == [
        ("sums", "four", "four", {"index": 3}),
        ("", "five", "four", {"level": 2}),
    ]


@pytest.mark.slow
def test_isolated_it_may_hang_and_end_its_process(functions, answer):
    made = rewards(functions("plain_score"), isolated=True, timeout=20.0, on_error="zero")
    with pytest.warns(UserWarning, match=r"reward\.verl .* ended its process or gave no finite number.* for answer 2"):
        scores = made([answer(text, place=i) for i, text in enumerate(("four", "break", "five"))])
    made.close()
    assert scores.by_name["verl"] == [1.0, 0.0, 0.0] and scores.failed["verl"] == 1
