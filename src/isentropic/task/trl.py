"""Environment classes as TRL's trainers take them (`environment_factory`), as they are; the library is not needed.

reset(**columns) -> str | None; other public methods are tools, their docstrings the schema; get_reward(), or `.reward`.
"""

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from time import thread_time
from types import NoneType
from typing import Any, get_args, get_origin, overload

from isentropic.task import Problem, Split, Task
from isentropic.task.environment import OfTask, Reply
from isentropic.task.foreign import made_by, verdict_of

KEY = "task.environment"
CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
PLACES = re.compile(r"\{(question|tools)\}")
DESCRIBED = re.compile(r"^\s*(\w+)(?:\s*\([^)\n]*\))?:\s*(.*)$")
NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", tuple: "array", dict: "object"}


def awaited(result: Coroutine[Any, Any, Any]) -> Any:
    """In a thread of its own, as the one that asks may have a loop that runs, as a notebook's does."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, result).result()


def now(result: Any) -> Any:
    """What a method returned, or what it does where it is a coroutine."""
    return awaited(result) if inspect.iscoroutine(result) else result


@dataclass(frozen=True)
class Tools:
    """One episode: a turn without a call ends it."""

    world: Any
    names: Sequence[str]
    solved: float  # the reward from which on an episode is right

    def step(self, text: str) -> Reply:
        """Calls the tools that a turn asks for; one that asks for none ends the episode, and the reward is read."""
        asked = CALL.findall(text)
        if not asked:
            return Reply("", verdict_of(now(reward_of(self.world)), self.solved))
        start = thread_time()
        results = [self.called(one) for one in asked]
        first, *more = [said for said, _ in results]
        failed = sum(not fine for _, fine in results)
        return Reply(first, calls=len(asked), failed=failed, seconds=thread_time() - start, more=tuple(more))

    def called(self, asked: str) -> tuple[str, bool]:
        """What a tool says, and whether it is no error: those are told to the model, as TRL tells them."""
        try:
            call = json.loads(asked)
            name, arguments = call["name"], call.get("arguments", {})
            if name not in self.names:
                raise ValueError(f"there is no tool {name}; there are {', '.join(self.names)}")
            result = getattr(self.world, name)(**arguments)
            return str(now(result)), True
        except Exception as error:  # also of what a model wrote that is no call
            return json.dumps({"error": str(error) or type(error).__name__}, ensure_ascii=False), False

    def close(self) -> None:
        """By close or _close, if it has one that is no tool."""
        for name in ("close", "_close"):
            if callable(end := getattr(self.world, name, None)) and name not in self.names:
                end()
                return


@dataclass(frozen=True)
class Trl(OfTask):
    """Problems are those of another task, whose columns `reset` is given; what it says follows the question.

    Raises ValueError for a class without `reset`, without tools, or with a tool that has no docstring.
    """

    environment: str  # package.module.Name or folder/file.py:Name
    task: Task  # whose problems are asked
    template: str  # the prompt, with {question} for that of the task and what reset says, and {tools} for the schemas
    solved: float  # an episode is right from this reward on
    stop: str | None = None  # a text of one token that ends a turn besides the model's own end

    def __post_init__(self) -> None:
        if set(PLACES.findall(self.template)) != {"question", "tools"}:
            raise ValueError(f"task.template={self.template!r} must contain both {{question}} and {{tools}}")
        if not hasattr(self.kind, "reset"):
            raise ValueError(f"{KEY}={self.environment} has no method reset, as environments of TRL have")
        if not self.tools:
            raise ValueError(f"{KEY}={self.environment} has no public method that could be a tool")
        for name, tool in self.tools.items():
            if not inspect.getdoc(tool):
                raise ValueError(f"{KEY}={self.environment}: {name} has no docstring to tell the model what it does")

    @property
    def made(self) -> Any:
        """The class or function that makes an environment."""
        return made_by(KEY, self.environment)

    @cached_property
    def kind(self) -> Any:
        """The class; that of what a function makes."""
        return self.made if isinstance(self.made, type) else type(self.made())

    @cached_property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """Public methods, but those that the trainer calls; static ones are helpers, as in the library."""
        methods = inspect.getmembers(self.kind, lambda one: inspect.isfunction(one) or inspect.ismethod(one))
        static = {name for name, _ in methods if isinstance(inspect.getattr_static(self.kind, name), staticmethod)}
        others = {"reset", "get_reward", "close"} | static
        return {name: method for name, method in methods if not name.startswith("_") and name not in others}

    @cached_property
    def schemas(self) -> str:
        """A line of JSON for each tool, as chat templates show them."""
        return "\n".join(json.dumps(schema(name, tool), ensure_ascii=False) for name, tool in self.tools.items())

    def reset(self, problem: Problem) -> tuple[Tools, str]:
        """An environment that was begun, and the prompt with what it says first."""
        world = self.made()
        messages = [*map(dict, problem.before), {"role": "user", "content": problem.prompt}]
        said = world.reset(**({"prompt": messages} | dict(problem.columns)))
        parts = {"question": problem.prompt if said is None else f"{problem.prompt}\n{said}", "tools": self.schemas}
        prompt = PLACES.sub(lambda place: parts[place[1]], self.template)
        return Tools(world, tuple(self.tools), self.solved), prompt

    def shown(self, problem: Problem) -> Problem:
        """The problem as an environment's reset shows it; its reference is the problem itself."""
        episode, prompt = self.reset(problem)
        episode.close()
        return replace(problem, prompt=prompt, reference=problem)

    def problems(self, split: Split) -> Sequence[Problem]:
        return Shown(self.task.problems(split), self.shown)

    def begin(self, problem: Problem, seed: int) -> Tools:
        """Raises ValueError where reset says something else than the prompt has."""
        episode, prompt = self.reset(problem.reference)
        if prompt != problem.prompt:
            episode.close()
            raise ValueError(f"{self.environment} says something else after each reset; let it follow from the columns")
        return episode


@dataclass(frozen=True)
class Shown(Sequence[Problem]):
    """Problems as they are put, each made when it is asked for."""

    inner: Sequence[Problem]
    show: Callable[[Problem], Problem]

    def __len__(self) -> int:
        return len(self.inner)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        if isinstance(index, slice):
            return [self.show(problem) for problem in self.inner[index]]
        return self.show(self.inner[index])


def reward_of(world: Any) -> Any:
    """By get_reward() or .reward. Raises ValueError for an environment with neither."""
    if hasattr(world, "get_reward"):
        return world.get_reward()
    if hasattr(world, "reward"):
        return world.reward
    raise ValueError(f"{type(world).__name__} has neither a method get_reward nor an attribute reward")


def schema(name: str, tool: Callable[..., Any]) -> dict[str, Any]:
    """In OpenAI's form, from the annotations and a docstring with Args."""
    said, _, rest = (inspect.getdoc(tool) or "").partition("Args:")
    described = dict[str, str]()
    for line in rest.partition("Returns:")[0].splitlines():
        if match := DESCRIBED.match(line):
            described[match[1]] = match[2].strip()
    parameters = list(inspect.signature(tool, eval_str=True).parameters.values())
    parameters = parameters if inspect.ismethod(tool) else parameters[1:]  # but self
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    properties = {one.name: kind(one.annotation) | {"description": described.get(one.name, "")} for one in named}
    needed = [one.name for one in named if one.default is one.empty]
    parts = {"type": "object", "properties": properties, "required": needed}
    return {"type": "function", "function": {"name": name, "description": said.strip(), "parameters": parts}}


def kind(annotation: Any) -> dict[str, Any]:
    """The JSON type of an annotation; of X | None, that of X."""
    found = NAMES.get(get_origin(annotation) or annotation)
    inner = [one for one in get_args(annotation) if one is not NoneType]
    if found is None and len(inner) == 1:
        return kind(inner[0])
    if found == "array":
        return {"type": found, "items": kind(inner[0]) if inner else {}}
    return {"type": found} if found else {}
