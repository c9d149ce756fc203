import random
import threading
from array import array
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from fixtures.models import saving

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.algorithm.control.gate import Gate
from isentropic.batch import Drive, Vitals
from isentropic.callbacks.weight_sync import WeightSync
from isentropic.state import Memory, StateError
from isentropic.task.judge_pool import JudgePool


class Plain:
    """With one field to change."""

    def __init__(self, value):
        self.value = value


def set_to(value):
    return lambda part: setattr(part, "value", value)


class Dice(random.Random):
    """Of a module of one's own."""


class Inner:
    def __init__(self):
        self.mean = 0.0


@pytest.mark.parametrize(
    ("start", "change"),
    [
        (0.0, set_to(1.0)),
        (None, set_to({})),
        ([1], lambda part: part.value.append(2)),
        ({1: 0.5}, lambda part: part.value.update({1: 0.25})),
        (Counter(), lambda part: part.value.update("a")),
        (defaultdict(list), lambda part: part.value["a"].append(1)),
        (deque([1], maxlen=3), lambda part: part.value.append(2)),
        ({1, 2}, lambda part: part.value.add(3)),
        (torch.zeros(3), lambda part: part.value.add_(1)),
        (torch.zeros(3, dtype=torch.bfloat16), lambda part: part.value.add_(1)),
        (np.zeros(3), lambda part: part.value.__iadd__(1)),
        (random.Random(0), lambda part: part.value.random()),
        (Dice(0), lambda part: part.value.random()),
        (torch.Generator(), lambda part: torch.rand(1, generator=part.value)),
        (np.random.default_rng(0), lambda part: part.value.random()),
        (np.random.RandomState(0), lambda part: part.value.rand()),
        (np.int64(1), lambda part: setattr(part, "value", part.value + 1)),
        (np.float32(1), lambda part: setattr(part, "value", part.value + 1)),
        (Fraction(1, 2), lambda part: setattr(part, "value", part.value / 2)),
        (Decimal(1), lambda part: setattr(part, "value", part.value / 2)),
        (array("d", [1.0]), lambda part: part.value.append(2.0)),
        (iter([1, 2]), lambda part: next(part.value)),
        (partial(max, [1]), lambda part: part.value.args[0].append(2)),
        (Inner(), lambda part: setattr(part.value, "mean", 0.5)),
        ([{"deep": Inner()}], lambda part: setattr(part.value[0]["deep"], "mean", 0.5)),
        (SimpleNamespace(n=0), lambda part: setattr(part.value, "n", 1)),
        (0, lambda part: setattr(part, "other", 1)),
    ],
)
def test_a_field_that_changes_and_is_not_saved_is_named(start, change):
    part = Plain(start)
    memory = Memory({"algorithm.credit.mine": part})
    memory.check()
    change(part)
    with pytest.raises(StateError, match=r"^algorithm\.credit\.mine: Plain\.(value|other) has changed during the run"):
        memory.check()


def test_what_is_no_content_is_no_memory():
    part = Plain([threading.Lock(), random.SystemRandom(), (one for one in [1])])
    memory = Memory({"mine": part})
    part.value[0].acquire()
    part.value[1].random()
    memory.check()


def test_what_is_of_the_class_is_seen_too():
    class Shared:
        seen: ClassVar = {}

    memory = Memory({"mine": Shared()})
    Shared.seen[3] = 1
    with pytest.raises(StateError, match=r"mine: Shared\.seen has changed"):
        memory.check()


def test_what_was_only_computed_is_no_memory():
    class Lazy:
        @cached_property
        def table(self):
            return [1, 2]

    part = Lazy()
    memory = Memory({"mine": part})
    assert part.table == [1, 2]
    memory.check()


def test_what_holds_itself_is_looked_at_once():
    part = Plain([1])
    part.value.append(part.value)
    part.own = part
    memory = Memory({"mine": part})
    memory.check()
    part.value[0] = 2
    with pytest.raises(StateError):
        memory.check()


@dataclass
class Baseline:
    decay: float
    means: dict = field(default_factory=dict)

    def state_dict(self):
        return {"means": self.means}

    def load_state_dict(self, state):
        self.means = state["means"]


def test_states_are_saved_and_restored_as_they_were():
    part = Baseline(0.5)
    memory = Memory({"algorithm.advantage": part, "algorithm.ratio": Plain(1)})
    part.means[7] = torch.tensor([0.5])
    saved = memory.state_dict()
    part.means[7] += 1
    memory.check()
    assert list(saved) == ["algorithm.advantage"] and saved["algorithm.advantage"][0]["means"][7].item() == 0.5
    other = Baseline(0.5)
    Memory({"algorithm.advantage": other}).load_state_dict(saved)
    assert other.means == {7: torch.tensor([0.5])}
    with pytest.raises(StateError, match=r"no memory of algorithm\.advantage \(Baseline\)"):
        Memory({"algorithm.advantage": Baseline(0.5)}).load_state_dict({})
    with pytest.raises(StateError, match=r"memory of algorithm\.advantage on 2 ranks; resume with as many"):
        Memory({"algorithm.advantage": Baseline(0.5)}).load_state_dict({"algorithm.advantage": [{}, {"means": {}}]})


def test_a_state_that_no_checkpoint_can_hold_is_refused():
    part = Baseline(0.5)
    part.means[7] = Inner()
    with pytest.raises(StateError, match=r"mine: Baseline\.state_dict.*Inner object.*, a Inner; a checkpoint holds"):
        Memory({"mine": part}).state_dict()


@dataclass
class Counting(Gate):
    """Counts beside what a controller saves by itself."""

    def update(self, vitals: Vitals) -> Drive:
        self.calls = getattr(self, "calls", 0) + 1
        return Drive()


def test_a_controller_saves_its_fields_and_no_others():
    part = Counting(target=1.0, step=0.1, ceiling=2.0)
    memory = Memory({"algorithm.control": part})
    part.strength = 1.5
    memory.check()
    part.update(Vitals(1.0, 0.0))
    with pytest.raises(StateError, match=r"algorithm\.control: Counting\.calls has changed"):
        memory.check()


@dataclass(frozen=True)
class PerProblem(AdvantageEstimator):
    """Reward against the mean that each problem had so far."""

    means: dict = field(default_factory=dict)

    def __call__(self, batch):
        before = torch.tensor([self.means.get(int(number), 0.0) for number in batch.problem])
        for number, reward in zip(batch.problem.tolist(), batch.reward.tolist(), strict=True):
            self.means[number] = reward
        return (batch.reward - before)[:, None] * batch.mask

    def state_dict(self):
        return {"means": self.means}

    def load_state_dict(self, state):
        self.means.update(state["means"])


class Forgetful(PerProblem):
    state_dict = load_state_dict = None


def with_advantage(parts, advantage):
    module = parts.learner()
    module.algorithm = replace(module.algorithm, advantage=advantage)
    module.memory = Memory(module.algorithm.parts())
    return module


def test_what_an_estimator_remembers_of_problems_is_in_the_checkpoint(parts, tmp_path):
    def run(folder, steps, ckpt_path=None):
        module = with_advantage(parts, PerProblem())
        data = parts.rollouts(parts.scripted(parts.some_right), problems=4, steps=steps)
        trainer = parts.trainer(tmp_path / folder, [WeightSync(1e-3, 8), saving(1)])
        trainer.fit(module, data, ckpt_path=ckpt_path, weights_only=True)
        return module

    whole = run("whole", 3)
    run("parts", 1)
    resumed = run("parts", 3, tmp_path / "parts" / "checkpoints" / "last.ckpt")
    assert len(whole.algorithm.advantage.means) == 4
    assert resumed.algorithm.advantage.means == whole.algorithm.advantage.means
    assert torch.equal(resumed.last_rollout.advantages, whole.last_rollout.advantages)


def test_an_estimator_that_would_forget_is_refused_after_the_first_rollout(parts, tmp_path):
    module = with_advantage(parts, Forgetful())
    data = parts.rollouts(parts.scripted(parts.some_right))
    with pytest.raises(ValueError, match=r"algorithm\.advantage: Forgetful\.means has changed during the run"):
        parts.trainer(tmp_path, [WeightSync(1e-3, 8)]).fit(module, data)
    assert module.rollouts == 1


@pytest.mark.parametrize("room", ["control", "schedule"])
def test_a_controller_or_a_schedule_that_would_forget_is_refused_too(parts, room):
    module = parts.learner()
    module.memory.check()
    vars(module.schedule if room == "schedule" else module.algorithm.control)["calls"] = 1
    with pytest.raises(StateError, match=rf"{room}: Constant\.calls has changed during the run"):
        module.memory.check()


def test_judges_that_have_started_are_no_memory():
    part = Plain(JudgePool("isentropic.task.equality:judge", workers=1, timeout=30.0, memory=4.0))
    memory = Memory({"reward.mine": part})
    assert part.value([("1", "1")])[0].correct
    memory.check()
    part.value.close()
