import pytest

from isentropic.callbacks.stop_rules import StopRuleError, StopRules

OFF = {"skipped": None, "entropy": None, "length": None, "patience": 2}


def rules(**settings):
    return StopRules(**(OFF | settings))


def logged(name, *values):
    return lambda step: {name: values[min(step, len(values)) - 1]}


@pytest.mark.parametrize("values, rollouts", [((1.0,), 3), ((1.0, 1.0, 0.5, 1.0), 6), ((0.0, 1.0), 4)])
def test_a_run_whose_updates_are_all_left_out_ends(run, tiny, values, rollouts):
    module = tiny(logged("policy/skipped", *values))
    with pytest.raises(StopRuleError, match=r"^callbacks\.stop_rules\.skipped: no update of the last 3 rollouts"):
        run([rules(skipped=3)], steps=9, module=module)
    assert module.rollouts == rollouts


@pytest.mark.parametrize("name, key", [("entropy", "entropy/mean"), ("length", "rollout/length")])
def test_a_value_that_stays_outside_of_its_range_ends_the_run(run, tiny, name, key):
    module = tiny(logged(key, 1.0, 9.0, 1.0, 9.0, 9.5))
    with pytest.raises(StopRuleError, match=rf"{key} was outside of 0.5 to 5 for 2 rollouts, and is 9.5 now"):
        run([rules(**{name: [0.5, 5.0]})], steps=9, module=module)
    assert module.rollouts == 5


def test_without_rules_and_within_them_a_run_goes_on(run, tiny):
    for some in (rules(), rules(skipped=3, entropy=[0.0, 10.0])):
        assert run([some], steps=4, module=tiny(logged("policy/skipped", 0.5))).rollouts == 4


@pytest.mark.parametrize("wrong", [{"skipped": 0}, {"patience": 0}, {"entropy": [2.0, 1.0]}, {"length": [1.0]}])
def test_settings_that_are_no_rule_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^stop_rules\."):
        rules(**wrong)
