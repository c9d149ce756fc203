from types import SimpleNamespace

import pytest

from isentropic.task import Verdict
from isentropic.task.environment import Reply, check_reply


@pytest.mark.parametrize("reply", ["text", None, 3, {"text": "5"}, SimpleNamespace(text="5")])
def test_what_is_no_reply_is_refused(reply):
    with pytest.raises(TypeError, match=r"step returned .* where a Reply must be"):
        check_reply(reply)


@pytest.mark.parametrize(
    "given", [{"calls": -1}, {"calls": 1, "failed": 2}, {"seconds": -1.0}, {"seconds": float("nan")}]
)
def test_counts_that_cannot_be_are_refused(given):
    with pytest.raises(ValueError, match="step counted"):
        check_reply(Reply("", **given))


def test_a_reward_is_finite():
    with pytest.raises(ValueError, match="a reward of nan"):
        check_reply(Reply("", Verdict(float("nan"), False, "wrong")))
    whole = Reply("5;", Verdict(0.5, False, "wrong"), calls=2, failed=1, seconds=0.1, more=("6",))
    assert check_reply(whole) is whole
