import pytest
from lightning import Callback

from isentropic.callbacks.stop_rules import StopRuleError, StopRules

OFF = {"skipped": None, "entropy": None, "length": None, "gap": None, "patience": 2}


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
    with pytest.raises(
        StopRuleError,
        match=rf"^callbacks\.stop_rules\.{name}: {key} was outside of 0.5 to 5 for 2 rollouts, and is 9.5 now",
    ):
        run([rules(**{name: [0.5, 5.0]})], steps=9, module=module)
    assert module.rollouts == 5


def test_a_sampler_that_stays_apart_from_the_policy_ends_the_run(run, tiny):
    module = tiny(logged("sampler/logp_gap", 0.01, 0.3, 0.01, 0.2, 0.3))
    with pytest.raises(StopRuleError, match=r"^callbacks\.stop_rules\.gap: .* outside of 0 to 0.1 for 2 rollouts"):
        run([rules(gap=0.1)], steps=9, module=module)
    assert module.rollouts == 5


def test_what_another_callback_logs_counts_and_a_value_that_is_no_number_is_outside(run, tiny):
    class Other(Callback):
        """As the length of completions is logged, which is in no row of the policy's."""

        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            pl_module.log("rollout/length", 900.0 if batch_idx > 1 else 9.0)

    with pytest.raises(StopRuleError, match=r"^callbacks\.stop_rules\.length: .* and is 900 now"):
        run([Other(), rules(length=[1.0, 99.0])], steps=9, module=(module := tiny()))
    assert module.rollouts == 4
    with pytest.raises(StopRuleError, match=r"^callbacks\.stop_rules\.entropy: .* and is nan now"):
        run([rules(entropy=[0.1, 5.0])], steps=9, module=tiny(logged("entropy/mean", float("nan"))))


def test_without_rules_and_within_them_a_run_goes_on(run, tiny):
    for some in (rules(), rules(skipped=3, entropy=[0.0, 10.0])):
        assert run([some], steps=4, module=tiny(logged("policy/skipped", 0.5))).rollouts == 4


@pytest.mark.parametrize(
    "wrong", [{"skipped": 0}, {"patience": 0}, {"entropy": [2.0, 1.0]}, {"length": [1.0]}, {"gap": 0.0}]
)
def test_settings_that_are_no_rule_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^stop_rules\."):
        rules(**wrong)
