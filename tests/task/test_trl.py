import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from fixtures.peers import beside

from isentropic.task import Problem, Task, Verdict
from isentropic.task.trl import Tools, Trl, awaited

BANK = '''
class Bank:
    def __init__(self):
        self.balance = 0
        self.goal = 0

    def reset(self, **kwargs) -> str | None:
        self.balance = 10
        self.goal = int(kwargs["goal"])
        return f"You have {self.balance}, and {kwargs['prompt'][-1]['content']!r} was asked."

    def deposit(self, amount: int, note: str | None = None) -> str:
        """
        Puts money into the account.

        Args:
            amount: How much,
            note: What for

        Returns:
            The new balance.
        """
        if amount < 0:
            raise ValueError("Not below zero.")
        self.balance += amount
        return f"{self.balance}"

    async def history(self, kinds: list[str]) -> list[int]:
        """Lists what was done.

        Args:
            kinds (`list[str]`): Which.
        """
        return [self.balance]

    def get_reward(self) -> float:
        return float(self.balance == self.goal)

    def _hidden(self):
        raise RuntimeError


class Attribute:
    def __init__(self):
        self.reward = 0.0

    def reset(self, **kwargs) -> str | None:
        self.reward = 0.0
        return None

    def echo(self, message: str) -> str:
        """
        Says the message again.

        Args:
            message: What to say
        """
        self.reward = len(message) / 10
        return message


class Kinds(Attribute):
    @staticmethod
    def helper(a: int, b: int) -> int:
        return a + b

    @classmethod
    def double(cls, a: int) -> str:
        """Doubles."""
        return str(cls.helper(a, a))


def make_kinds():
    return Kinds()


class NoTools:
    def reset(self, **kwargs):
        return None


class Undescribed(NoTools):
    def tool(self, x: int) -> str:
        return str(x)


class Chance(Attribute):
    count = 0

    def reset(self, **kwargs):
        Chance.count += 1
        return str(Chance.count)


class NoReset:
    def tool(self) -> str:
        """Does nothing."""
        return ""


class NoReward(NoTools):
    def tool(self) -> str:
        """Does nothing."""
        return ""
'''


@dataclass(frozen=True)
class Rows(Task):
    def problems(self, split):
        return [Problem(f"reach {goal}", None, columns={"goal": goal}) for goal in (10, 15)]

    def verify(self, problems, texts):
        return [Verdict(0.0, False, "wrong") for _ in texts]


@pytest.fixture
def made(tmp_path):
    file = tmp_path / "banks.py"
    file.write_text(BANK)

    def make(name, **settings):
        usual = {"task": Rows(), "template": "{tools}\n{question}", "solved": 1.0}
        return Trl(f"{file}:{name}", **(usual | settings))

    return make


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def test_tools_are_called_until_a_turn_has_no_call(made):
    task = made("Bank")
    problem = task.problems("train")[1]
    assert problem.prompt.endswith("\nreach 15\nYou have 10, and 'reach 15' was asked.")
    episode = task.begin(problem, 0)
    reply = episode.step(f"I pay in. {call('deposit', amount=3)}{call('deposit', amount=2, note='rent')}")
    assert (reply.text, reply.more, reply.calls, reply.failed, reply.verdict) == ("13", ("15",), 2, 0, None)
    assert episode.step(call("history", kinds=["all"])).text == "[15]"
    assert episode.step("Done.").verdict == Verdict(1.0, True, "right")
    assert task.begin(problem, 0).step("Done.").verdict == Verdict(0.0, False, "wrong")  # each has its own


def test_what_a_tool_raises_is_told_to_the_model(made):
    episode = made("Bank").begin(made("Bank").problems("train")[0], 0)
    wrong = [call("deposit", amount=-1), call("_hidden"), call("reset"), call("get_reward"), call("deposit")]
    wrong += [f"<tool_call>{text}</tool_call>" for text in ("", "3", "{", "[" * 100_000, '{"name": []}')]
    reply = episode.step("".join(wrong))
    told = [json.loads(text)["error"] for text in (reply.text, *reply.more)]
    assert told[0] == "Not below zero." and "there is no tool _hidden; there are deposit, history" in told[1]
    assert all(told) and reply.failed == reply.calls == len(wrong)
    assert episode.step("").verdict.correct  # nothing was paid in


def test_schemas_are_those_of_the_docstrings(made):
    deposit, history = map(json.loads, made("Bank").schemas.splitlines())
    assert deposit["function"]["name"] == "deposit" and deposit["type"] == "function"
    assert deposit["function"]["description"] == "Puts money into the account."
    assert deposit["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "amount": {"type": "integer", "description": "How much,"},
            "note": {"type": "string", "description": "What for"},
        },
        "required": ["amount"],
    }
    kinds = history["function"]["parameters"]["properties"]["kinds"]
    assert kinds == {"type": "array", "items": {"type": "string"}, "description": "Which."}


@pytest.mark.parametrize("name", ["Kinds", "make_kinds"])
def test_methods_of_a_class_are_tools_static_ones_are_not_and_a_function_may_make_it(made, name):
    task = made(name)
    assert list(task.tools) == ["double", "echo"]
    parameters = json.loads(task.schemas.splitlines()[0])["function"]["parameters"]
    assert parameters["properties"] == {"a": {"type": "integer", "description": ""}}
    episode = task.begin(task.problems("train")[0], 0)
    assert episode.step(call("double", a=4)).text == "8" and episode.step(call("helper", a=1, b=2)).failed == 1


def test_a_reward_may_be_an_attribute(made):
    task = made("Attribute", solved=0.5)
    problem = task.problems("train")[0]
    assert problem.prompt.endswith("}\nreach 10")
    episode = task.begin(problem, 0)
    assert episode.step(call("echo", message="ä{question}")).text == "ä{question}"
    assert episode.step("").verdict == Verdict(1.1, True, "right")
    with pytest.raises(ValueError, match="neither a method get_reward nor an attribute reward"):
        task = made("NoReward")
        task.begin(task.problems("train")[0], 0).step("")


def test_what_cannot_be_used_is_refused(made, tmp_path):
    for name, said in (
        ("NoTools", "no public method"),
        ("Undescribed", "tool has no docstring"),
        ("NoReset", "no method reset"),
        ("Missing", "has no class or function Missing"),
    ):
        with pytest.raises(ValueError, match=said):
            made(name)
    with pytest.raises(ValueError, match="must contain both"):
        made("Bank", template="{question}")
    for path in (f"{tmp_path}/nowhere.py:Bank", "no_such_package.Bank", "Bank", ""):
        with pytest.raises(ValueError, match=r"task\.environment="):
            Trl(path, Rows(), "{question}{tools}", 1.0)


def test_a_reset_that_says_something_else_each_time_is_refused(made):
    task = made("Chance")
    problem = task.problems("train")[0]
    with pytest.raises(ValueError, match="says something else after each reset"):
        task.begin(problem, 0)


def test_a_tool_that_is_a_coroutine_is_awaited_beside_a_loop_that_runs():
    async def twice(number):
        return 2 * number

    async def outer():
        return awaited(twice(4))

    with ThreadPoolExecutor(1) as threads:  # a browser of another test may have left a loop in this one
        assert threads.submit(asyncio.run, outer()).result() == 8


def test_a_reward_may_be_a_coroutine():
    class Judged:
        async def get_reward(self):
            return 0.5

    assert Tools(Judged(), (), 0.5).step("No call.").verdict == Verdict(0.5, True, "right")


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")  # a class of TRL's own, which the process that gathers warnings cannot import
def test_the_shell_of_trl_s_sandbox_is_read_as_it_is():
    """The one environment that TRL brings along; to play it takes the package harbor and a sandbox."""
    with beside("trl"):
        task = Trl("trl.experimental.harbor._env.HarborBashEnv", Rows(), "{question} {tools}", 1.0)
        (line,) = task.schemas.splitlines()
        described = json.loads(line)["function"]
        assert described["name"] == "bash" and described["parameters"]["required"] == ["command"]
        assert described["parameters"]["properties"]["command"]["type"] == "string"
        with pytest.raises(ValueError, match="requires `task_dir`"):
            task.reset(Problem("How many files are there?", None))
