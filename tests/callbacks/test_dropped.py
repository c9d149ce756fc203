import pytest

from isentropic.callbacks.dropped import Dropped


@pytest.fixture
def said(run, tiny, capsys):
    def listen(logged):
        run([Dropped(limit=0.15)], steps=4, module=tiny(logged))
        lines = capsys.readouterr().err.splitlines()
        return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]

    return listen


def test_a_correction_that_masks_much_is_told_once_with_the_share(said):
    (told,) = said(lambda step: {"sampler/masked": 0.1 * step, "policy/empty": 0.0})
    assert told.startswith("rollout 2: corrections of the sampler leave 20% of the tokens without weight")


def test_a_step_without_any_token_left_is_told_once(said):
    (told,) = said(lambda step: {"policy/kept": 0.5, "policy/empty": 0.25 * (step > 2)})
    assert told.startswith("rollout 3: credit rules have dropped every token of an optimizer step")


def test_rules_that_leave_enough_are_left_alone(said):
    assert said(lambda step: {"sampler/masked": 0.1, "policy/empty": 0.0, "policy/kept": 0.2}) == []
    assert said(lambda step: {}) == []


def test_a_limit_that_is_no_share_is_refused():
    for limit in (0, 1.5):
        with pytest.raises(ValueError, match=r"dropped\.limit="):
            Dropped(limit)
