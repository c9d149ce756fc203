"""Text environments of SkyRL-gym's kind, as they are: `init`, `step`, `close`; the library is not needed.

init(prompt) -> (prompt, metadata); step(action) -> {observations, reward, done, ...}, made as Name(env_config, extras)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isentropic.task import Problem, Task
from isentropic.task.environment import OfTask, Reply
from isentropic.task.foreign import made_by, verdict_of

KEY = "task.environment"


class Settings(dict[str, Any]):
    """As the library's own: what stands under a name is an attribute too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"env_config has no {name}; there are {', '.join(self) or 'none'}") from None


def settings(value: Any) -> Any:
    """With all that is nested in it."""
    if isinstance(value, Mapping):
        return Settings({str(name): settings(one) for name, one in value.items()})
    return value


@dataclass
class Steps:
    """One episode, and the rewards of its steps together."""

    world: Any
    solved: float  # the reward from which on an episode is right
    total: float = field(init=False, default=0.0)

    def step(self, text: str) -> Reply:
        """One step of the environment, whose rewards are summed; the sum is the verdict when it is done."""
        out = self.world.step(text)
        said = out if isinstance(out, Mapping) else vars(out)
        self.total += float(said["reward"])
        if said["done"]:
            return Reply("", verdict_of(self.total, self.solved))
        texts = [message["content"] for message in said["observations"]]
        return Reply(texts[0] if texts else "", more=tuple(texts[1:]))

    def close(self) -> None:
        """Closes the environment if it can be."""
        if hasattr(self.world, "close"):
            self.world.close()


@dataclass(frozen=True)
class SkyRl(OfTask):
    """Problems are those of another task; all columns of a row are its `extras`.

    What was written stays as it was sampled: a `postprocessed_action` is not put in its place. Raises ValueError for
    what cannot be imported.
    """

    environment: str  # package.module.Name or folder/file.py:Name
    env_config: Mapping[str, Any]
    task: Task  # whose problems are asked
    solved: float  # an episode is right from this sum of rewards on
    stop: str | None = None  # a text of one token that ends a turn besides the model's own end

    def __post_init__(self) -> None:
        made = made_by(KEY, self.environment)
        for method in ("init", "step"):
            if isinstance(made, type) and not hasattr(made, method):
                raise ValueError(f"{KEY}={self.environment} has no method {method}, as environments of SkyRL-gym have")

    def begin(self, problem: Problem, seed: int) -> Steps:
        """Raises ValueError for an environment that rewrites the prompt, which is there already."""
        world = made_by(KEY, self.environment)(env_config=settings(self.env_config), extras=dict(problem.columns))
        prompt = [*map(dict, problem.before), {"role": "user", "content": problem.prompt}]
        given, _ = world.init([dict(message) for message in prompt])
        if [dict(message) for message in given] != prompt:
            raise ValueError(f"{self.environment} rewrites the prompt in init; write it into the rows instead")
        return Steps(world, self.solved)
