import pytest


@pytest.mark.parametrize(
    ("setting", "value"),
    [("turns", 0), ("turn_tokens", 0), ("observation_tokens", 0), ("calls", 0), ("workers", 0), ("seconds", 0.0),
     ("tool_seconds", -1.0), ("thinking", "drop")],
)  # fmt: skip
def test_budgets_that_cannot_be_are_refused(parts, setting, value):
    with pytest.raises(ValueError, match=rf"rollout\.turns\.{setting}={value} "):
        parts.turns(**{setting: value})


def test_nothing_is_read_after_the_last_turn(parts):
    assert parts.turns(turns=3, observation_tokens=10).observed_at_most == 20
    assert parts.turns(turns=1, observation_tokens=10).observed_at_most == 0
    assert parts.turns(turns=3, observation_tokens=10, observed_tokens=15).observed_at_most == 15
