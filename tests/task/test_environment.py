from types import SimpleNamespace

import numpy as np
import pytest

from isentropic.task import Verdict
from isentropic.task.environment import Reply, check_reply


@pytest.mark.parametrize("reply", ["text", None, 3, {"text": "5"}, SimpleNamespace(text="5")])
def test_what_is_no_reply_is_refused(reply):
    with pytest.raises(TypeError, match=r"step returned .* where a Reply must be"):
        check_reply(reply)


@pytest.mark.parametrize(
    "given",
    [{"calls": -1}, {"calls": 1, "failed": 2}, {"seconds": -1.0}, {"seconds": float("nan")}, {"seconds": float("inf")}],
)
def test_counts_that_cannot_be_are_refused(given):
    with pytest.raises(ValueError, match=r"step (counted|gave seconds)"):
        check_reply(Reply("", **given))


def test_a_reward_is_finite():
    with pytest.raises(ValueError, match="a reward of nan"):
        check_reply(Reply("", Verdict(float("nan"), False, "wrong")))
    whole = Reply("5;", Verdict(0.5, False, "wrong"), calls=2, failed=1, seconds=0.1, more=("6",))
    assert check_reply(whole) == whole and check_reply(Reply("5")) == Reply("5")


@pytest.mark.parametrize(("name", "value"), [("correct", None), ("correct", 2), ("status", None), ("status", "odd")])
def test_a_verdict_is_of_known_words(name, value):
    verdict = Verdict(1.0, True, "right")
    object.__setattr__(verdict, name, value)  # as code without types would have it
    with pytest.raises(ValueError, match=f"a verdict with .*{name}={value!r}"):
        check_reply(Reply("", verdict))


def test_a_verdict_of_numpy_becomes_plain():
    verdict = Verdict(1.0, True, "right")
    object.__setattr__(verdict, "correct", np.True_)
    assert check_reply(Reply("", verdict)).verdict.correct is True


def test_a_reply_of_numpy_becomes_plain():
    reply = Reply("5;")
    for name, value in {"void": 1, "calls": np.int64(2), "failed": True, "seconds": np.float32(0.5)}.items():
        object.__setattr__(reply, name, value)  # as code without types would have it
    plain = check_reply(reply)
    assert [plain.void, plain.calls, plain.failed, plain.seconds] == [True, 2, 1, 0.5]
    assert [type(value) for value in (plain.void, plain.calls, plain.failed, plain.seconds)] == [bool, int, int, float]


@pytest.mark.parametrize("more", ["5;", None, {"5;"}, b"5;"])
def test_further_results_are_a_tuple_of_texts(more):
    reply = Reply("5;")
    object.__setattr__(reply, "more", more)
    with pytest.raises(TypeError, match=r"step gave .* as more, where a tuple of texts must be"):
        check_reply(reply)
    assert check_reply(Reply("5;", more=("6;",))).more == ("6;",)
