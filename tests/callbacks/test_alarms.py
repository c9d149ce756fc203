from dataclasses import replace
from types import SimpleNamespace

import pytest

from isentropic.algorithm.clipping.dynamic import Dynamic
from isentropic.algorithm.clipping.sapo import Sapo
from isentropic.algorithm.ratio.geometric import GeometricRatio
from isentropic.callbacks.alarms import Dropped, FailedCalls, Idle, activity, inert
from isentropic.callbacks.weight_sync import WeightSync
from isentropic.sampler.hf import TransformersSampler
from isentropic.task import Problem, Verdict
from isentropic.task.environment import Environment, Reply


@pytest.fixture
def said(run, tiny, capsys):
    def listen(logged, patience=3):
        run([Idle(patience)], steps=8, module=tiny(logged))
        lines = capsys.readouterr().err.splitlines()
        return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]

    return listen


def test_clipping_with_one_update_per_rollout_is_told_at_the_start(parts, tmp_path, capsys):
    for mini_batch, warned in ((16, True), (8, False)):
        module, data = parts.learner(mini_batch=mini_batch), parts.rollouts(parts.scripted(parts.some_right))
        trainer = parts.trainer(tmp_path, [WeightSync(1e-3, 8), Idle(patience=4)])
        trainer.fit(module, data)
        assert capsys.readouterr().err.count("warning: Clipping cannot act: with one optimizer step") == warned
        assert mini_batch == 8 or float(trainer.callback_metrics["clipping/clipped_high"]) == 0


def test_what_one_update_makes_inert_is_named(parts):
    algorithm = parts.learner().algorithm
    assert "so clipping=fixed of ratio=token limits no token, and" in inert(algorithm)
    assert "clipping=sapo of ratio=geometric limits no token, and" in inert(
        replace(algorithm, ratio=GeometricRatio(), clipping=Sapo(1.0, 1.05))
    )
    followed = replace(algorithm, clipping=Dynamic(0.2, 0.2, 10, -0.25, 0.5, -0.13, 0.3, False))
    assert "clipping=dynamic of ratio=token limits no token, whatever the entropy controller asks of it" in inert(
        followed
    )


def test_clipping_without_sides_is_not_judged(parts, tmp_path, capsys):
    module, data = parts.learner(mini_batch=8), parts.rollouts(parts.scripted(parts.some_right))
    module.algorithm = replace(module.algorithm, clipping=Sapo(1.0, 1.05))
    trainer = parts.trainer(tmp_path, [WeightSync(1e-3, 8), Idle(patience=1)])
    trainer.fit(module, data)
    assert "Clipping" not in capsys.readouterr().err
    assert [name for name in trainer.callback_metrics if name.startswith("clipping/")] == []
    assert trainer.callback_metrics["policy/grad_norm"] > 0


def test_a_controller_that_nothing_follows_is_told_at_the_start(parts, tmp_path, capsys):
    from isentropic.algorithm.control.gate import Gate

    for control, warned in ((Gate(target=0.3, step=0.0, ceiling=5.0), 1), (None, 0)):
        module, data = parts.learner(mini_batch=8), parts.rollouts(parts.scripted(parts.some_right))
        object.__setattr__(module.algorithm, "control", control or module.algorithm.control)
        parts.trainer(tmp_path, [Idle(patience=4)]).fit(module, data)
        assert capsys.readouterr().err.count("warning: No part follows the entropy controller (Gate)") == warned


def test_clipping_that_never_acts_is_told_once_for_each_side(said):
    told = said(lambda step: {"clipping/clipped_low": 0.0, "clipping/clipped_high": 0.0})
    assert len(told) == 2 and all("has acted on no token in 3 rollouts" in text for text in told)
    assert "low side" in told[0] and "high side" in told[1]


def test_a_part_that_acts_now_and_then_is_left_alone(said):
    assert said(lambda step: {"credit/stare": float(step % 3 == 0), "clipping/clipped_high": 0.01}) == []


def test_a_rule_that_never_fires_is_told_after_its_patience(said):
    quiet = lambda step: {"credit/stapo": 0.0, "control/up": 1.0}  # noqa: E731
    assert said(quiet, patience=9) == []
    assert said(quiet, patience=8) == ["The credit rule stapo has changed no token in 8 rollouts; check its settings."]


def test_a_set_that_a_rule_leaves_alone_is_not_a_rule(said):
    assert said(lambda step: {"credit/stare": 0.1, "credit/stare_negative_expected": 0.0}) == []


def test_a_rule_behind_a_closed_gate_names_the_gate(said):
    told = said(lambda step: {"credit/stare": 0.0, "control/up": 0.0, "control/down": 0.0})
    assert len(told) == 2 and "controller has asked for nothing" in told[0]
    assert "because the entropy controller asks for nothing" in told[1]


def test_what_is_not_logged_is_not_judged():
    assert activity({"rollout/reward": 0.0}) == {}
    assert activity({"control/down": 0.5, "control/up": 0.0}) == {"control": True}


def test_a_patience_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1 rollout"):
        Idle(0)


@pytest.fixture
def dropped(run, tiny, capsys):
    def listen(logged):
        run([Dropped(limit=0.15)], steps=4, module=tiny(logged))
        lines = capsys.readouterr().err.splitlines()
        return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]

    return listen


def test_a_correction_that_masks_much_is_told_once_with_the_share(dropped):
    (told,) = dropped(lambda step: {"sampler/masked": 0.1 * step, "policy/empty": 0.0})
    assert told.startswith("rollout 2: corrections of the sampler leave 20% of the tokens without weight")


def test_a_step_without_any_token_left_is_told_once(dropped):
    (told,) = dropped(lambda step: {"policy/kept": 0.5, "policy/empty": 0.25 * (step > 2)})
    assert told.startswith("rollout 3: credit rules have dropped every token of an optimizer step")


def test_rules_that_leave_enough_are_left_alone(dropped):
    assert dropped(lambda step: {"sampler/masked": 0.1, "policy/empty": 0.0, "policy/kept": 0.2}) == []
    assert dropped(lambda step: {}) == []


def test_a_limit_that_is_no_share_is_refused():
    for limit in (0, 1.5):
        with pytest.raises(ValueError, match=r"dropped\.limit="):
            Dropped(limit)


class Tool(Environment):
    """One call in each of two turns; of every second problem both fail."""

    def problems(self, split):
        return [Problem(f"{i}+1=", i) for i in range(8)]

    def begin(self, problem, seed):
        replies = iter(
            [Reply("5", calls=2, failed=2 * (problem.reference % 2)), Reply("", Verdict(1.0, True, "right"))]
        )
        return SimpleNamespace(step=lambda text: next(replies), close=lambda: None)


@pytest.mark.parametrize(("limit", "lines"), [(0.4, 1), (0.6, 0)])
def test_tool_calls_that_mostly_fail_are_told_once_with_the_share(parts, tmp_path, capsys, limit, lines):
    sampler = TransformersSampler(parts.model, "float32", "cpu", 64, 64)
    data = parts.rollouts(sampler, task=Tool(), steps=2, turns=parts.turns())
    parts.trainer(tmp_path, [FailedCalls(limit), WeightSync(1e-3, 8)]).fit(parts.learner(), data)
    told = [line for line in capsys.readouterr().err.splitlines() if "of the tool calls failed" in line]
    assert len(told) == lines and all(line.startswith("warning: rollout 1: 50%") for line in told)


def test_a_limit_of_failed_calls_that_is_no_share_is_refused():
    with pytest.raises(ValueError, match=r"failed_calls\.limit=2 is a share of calls"):
        FailedCalls(2)
