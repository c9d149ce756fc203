from dataclasses import dataclass

import pytest
from fixtures.peers import beside

from isentropic.task import Problem, Task, Verdict
from isentropic.task.skyrl import SkyRl

SUMS = '''
from dataclasses import dataclass, field
from typing import Any, Dict


class Sums:
    """init, step and close as skyrl_gym's BaseTextEnv has them; a step returns a TypedDict, which is a dict."""

    def __init__(self, env_config: Dict[str, Any] = {}, extras: Dict[str, Any] = {}):
        self.answer = extras["reward_spec"]["ground_truth"]
        self.max_turns = extras.get("max_turns", env_config["max_turns"])
        self.turns, self.closed = 0, 0

    def init(self, prompt):
        return prompt, {}

    def step(self, action: str):
        self.turns += 1
        done = action == self.answer or self.turns >= self.max_turns
        said = [] if done else ["Try again.", "Please."]
        observations = [{"role": "user", "content": text} for text in said]
        reward = 1.0 if action == self.answer else -0.25
        return dict(observations=observations, reward=reward, done=done, metadata={}, postprocessed_action=action[:1])

    def close(self):
        self.closed += 1


@dataclass
class Output:
    observations: list = field(default_factory=list)
    reward: float = 0.5
    done: bool = False
    metadata: dict = field(default_factory=dict)


class Objects(Sums):
    def step(self, action):
        return Output()


class Rewriting(Sums):
    def init(self, prompt):
        return [{"role": "system", "content": "Think."}, *prompt], {}


class Attributes(Sums):
    """As skyrl_gym's search and SQL, which are given an OmegaConf."""

    def __init__(self, env_config, extras={}):
        self.max_turns, self.url = env_config.search.max_turns, env_config.get("url", "none")
        self.answer, self.turns = extras["reward_spec"]["ground_truth"], 0
        if hasattr(env_config, "missing") or "search" not in env_config:
            raise ValueError
        self.timeout = env_config.search.timeout


class NoInit:
    def step(self, action):
        return {}
'''


@dataclass(frozen=True)
class Rows(Task):
    def problems(self, split):
        return [Problem("1+1?", None, columns={"reward_spec": {"ground_truth": "2"}})]

    def verify(self, problems, texts):
        return [Verdict(0.0, False, "wrong") for _ in texts]


@pytest.fixture
def made(tmp_path):
    file = tmp_path / "sums.py"
    file.write_text(SUMS)
    return lambda name, turns=3: SkyRl(f"{file}:{name}", {"max_turns": turns}, Rows(), solved=0.5)


def test_rewards_of_steps_are_added_up_until_it_is_done(made):
    task = made("Sums")
    (problem,) = task.problems("train")
    episode = task.begin(problem, 0)
    reply = episode.step("3")
    assert (reply.text, reply.more, reply.verdict) == ("Try again.", ("Please.",), None)
    assert episode.step("4").verdict is None
    assert episode.step("2").verdict == Verdict(0.5, True, "right")
    episode.close()
    assert episode.world.closed == 1
    episode = made("Sums", turns=1).begin(problem, 0)
    assert episode.step("3").verdict == Verdict(-0.25, False, "wrong")


def test_a_step_may_return_an_object_and_say_nothing(made):
    task = made("Objects")
    reply = task.begin(task.problems("train")[0], 0).step("3")
    assert (reply.text, reply.more, reply.verdict) == ("", (), None)


def test_settings_are_items_and_attributes(tmp_path):
    (file := tmp_path / "sums.py").write_text(SUMS)
    task = SkyRl(f"{file}:Attributes", {"search": {"max_turns": 1, "timeout": 5}}, Rows(), solved=0.5)
    assert task.begin(task.problems("train")[0], 0).step("2").verdict == Verdict(1.0, True, "right")
    task = SkyRl(f"{file}:Attributes", {"search": {"max_turns": 1}}, Rows(), solved=0.5)
    with pytest.raises(AttributeError, match="env_config has no timeout; there are max_turns"):
        task.begin(task.problems("train")[0], 0)


def test_what_cannot_be_used_is_refused(made):
    with pytest.raises(ValueError, match="has no method init"):
        made("NoInit")
    task = made("Rewriting")
    with pytest.raises(ValueError, match="rewrites the prompt in init"):
        task.begin(task.problems("train")[0], 0)


@dataclass(frozen=True)
class Apples(Task):
    def problems(self, split):
        columns = {"reward_spec": {"ground_truth": "7"}, "max_turns": 3}
        return [Problem("I have 3 apples and get 4. How many?", None, columns=columns)]

    def verify(self, problems, texts):
        return [Verdict(0.0, False, "wrong") for _ in texts]


@pytest.mark.parity
def test_the_gsm8k_of_several_turns_of_skyrl_gym_is_played_as_it_is():
    with beside("skyrl_gym"):
        task = SkyRl("skyrl_gym.envs.gsm8k.multi_turn_env.GSM8kMultiTurnEnv", {}, Apples(), solved=1.0)
        (problem,) = task.problems("train")
        episode = task.begin(problem, 0)
        first, second = episode.step("Let me think."), episode.step("It may be #### 8")
        assert "step-by-step reasoning" in first.text and "only the final numeric answer" in second.text
        last = episode.step("#### 7").verdict
        episode.close()
        assert last.correct and last.reward == pytest.approx(1 + 0.2 / 3)  # the format's share of the turn before
        assert task.begin(problem, 0).step("#### 7").verdict == Verdict(1.0, True, "right")
