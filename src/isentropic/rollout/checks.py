"""What a rollout's settings must be, said before anything starts."""

from collections.abc import Mapping
from dataclasses import replace

from isentropic.reward.correct import Correct
from isentropic.reward.length import Length
from isentropic.reward.total import Rewards
from isentropic.rollout.curation import Curator
from isentropic.rollout.sampling import ProblemSampler
from isentropic.sampler import Decoding
from isentropic.task import Task
from isentropic.task.environment import Environment


def check_group(size: int, group: int) -> None:
    """Raises ValueError for a batch that is no multiple of the group, with the nearest that is."""
    if group < 1 or size < 1:
        raise ValueError(f"rollout.batch_size={size} and rollout.group_size={group} must be at least 1")
    if size % group:
        lower = size // group * group
        fit = f"the nearest that fit are {lower} and {lower + group}" if lower else f"the smallest that fits is {group}"
        raise ValueError(f"rollout.batch_size={size} is not a multiple of rollout.group_size={group}; {fit}")


def check_numbers(task: Task, steps: int, max_tries: int, problems: int | None) -> None:
    """Raises ValueError for numbers below 1, and for more problems than there are."""
    for name, value in (("steps", steps), ("max_tries", max_tries), ("problems", problems)):
        if value is not None and value < 1:
            raise ValueError(f"rollout.{name}={value} must be at least 1")
    if problems is not None and problems > len(task.problems("train")):
        raise ValueError(
            f"rollout.problems={problems} is more than the {len(task.problems('train'))} problems of the train "
            "split; null takes all"
        )


def stopped(task: Task, decoding: Decoding, key: str) -> Decoding:
    """With the text that ends a turn of an environment. Raises ValueError where another one is asked for."""
    if not isinstance(task, Environment) or task.stop is None:
        return decoding
    if decoding.stop not in (None, task.stop):
        raise ValueError(
            f"{key}.stop={decoding.stop!r} is not what ends a turn of the task, {task.stop!r}; leave it out"
        )
    return replace(decoding, stop=task.stop)


def check_rewards(reward: Rewards, curation: Mapping[str, Curator]) -> None:
    """Raises ValueError where a curator forgets rewards, or length is charged twice."""
    others = [name for name, one in reward.parts.items() if not isinstance(one, Correct)]
    for key, curator in curation.items():
        if curator.replaces_reward and others:
            raise ValueError(
                f"rollout.curation.{key} replaces every reward by the verdict, and {others[0]} would be lost; leave it "
                "out: reward.correct.weight=2 sets right and wrong as far apart as 1 and -1 are"
            )
        if curator.charges_length and any(isinstance(one, Length) for one in reward.parts.values()):
            raise ValueError(
                f"rollout.curation.{key} and the reward length both charge for length; leave one of them out"
            )


def check_decoding(decoding: Decoding) -> None:
    """Raises ValueError for greedy or truncated sampling in training.

    The policy's log-probs are over the whole vocabulary; log(kept mass) would leak into every importance ratio.
    """
    if decoding.greedy:
        raise ValueError(
            f"rollout.decoding.temperature={decoding.temperature} is not above 0: a prompt would get the same answer "
            "each time, and a group of equals teaches nothing (rollout.evaluation.decoding.temperature may be 0)"
        )
    for name, off in (("top_p", 1), ("top_k", 0), ("min_p", 0)):
        value = getattr(decoding, name)
        if value != off:
            raise ValueError(
                f"rollout.decoding.{name}={value} truncates sampling, and the importance ratio is of the whole "
                f"distribution; train with {name}={off} (rollout.evaluation.decoding.{name} is free)"
            )


def check_partial(task: Task, sampling: ProblemSampler, max_staleness: int) -> None:
    """Raises ValueError for what cannot go on with other weights, or be begun before earlier rollouts are over."""
    if max_staleness < 1:
        raise ValueError(
            f"rollout.max_staleness={max_staleness} updates leave no answer that may go on after one; take at least 1, "
            "or rollout.partial=false"
        )
    if isinstance(task, Environment):
        raise ValueError(
            "rollout.partial=true halts an answer in the middle and goes on with it later, which episodes of an "
            "environment cannot yet do; take rollout.partial=false"
        )
    if sampling.state_dict():
        raise ValueError(
            f"rollout.partial=true begins problems before the answers of earlier ones are known, by which "
            f"{type(sampling).__name__} chooses; take rollout/sampling=shuffled or weighted"
        )
