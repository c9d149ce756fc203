"""Problems to judged completions: encode, sample, verify, collate; or play, where the task is an environment."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from isentropic.batch import RolloutBatch
from isentropic.phases import doing
from isentropic.reward import Answer, Played
from isentropic.rollout.collate import Segment, collate, collate_segments
from isentropic.rollout.framing import Framing
from isentropic.rollout.judging import Judged, Judging
from isentropic.rollout.play import Player, Transcript
from isentropic.rollout.prompts import PromptEncoder
from isentropic.rollout.turns import Turns
from isentropic.sampler import Completion, Decoding, Request, Sampler, once
from isentropic.task import Problem, Task, Verdict
from isentropic.task.environment import Environment

T = TypeVar("T")


class Generated(NamedTuple):
    """Rows and what stands in each. The reward is the task's own."""

    batch: RolloutBatch
    answers: list[Answer]


@dataclass(frozen=True)
class RolloutGenerator:
    """Token ids go to the sampler and come back from it; text is made of them only to be judged."""

    task: Task
    sampler: Sampler
    prompts: PromptEncoder
    seed: int  # of the run: each request draws from its own
    turns: Turns | None = None  # of an environment
    limit: Callable[[int], int] | None = None  # tokens that the answer of a seed may have, where not max_tokens

    @cached_property
    def player(self) -> Player | None:
        """Raises ValueError for an environment without budgets."""
        if not isinstance(self.task, Environment):
            return None
        if self.turns is None:
            raise ValueError("the task is an environment, and rollout.turns does not say how long its episodes may be")
        return Player(self.task, self.sampler, Framing(self.prompts, self.turns), self.turns, self.seed)

    @cached_property
    def judging(self) -> Judging:
        """Of this generator's answers, in a thread that waits between rollouts."""
        return Judging(self.task, self.prompts.tokenizer)

    def generate(
        self,
        problems: Sequence[Problem],
        groups: Sequence[int],
        count: int,
        decoding: Decoding,
        draw: str,
        apart: int | None = None,
    ) -> Generated:
        """`count` completions of each problem, judged.

        Groups are the ids of the rows. With `draw`, which names the occasion, they also fix the seeds: those of groups
        lie `apart`, or else `count`, which makes all but the first group's depend on it.
        """
        if self.player:
            return self.played(self.player, problems, groups, count, decoding, draw, apart or count)
        prompts = [self.prompts.encode(problem) for problem in problems]
        seeds = [self.seed_of(draw, group, apart or count) for group in groups]
        self.sampler.check(prompts, count, seeds, decoding)
        limit = self.limit or (lambda seed: decoding.max_tokens)
        drawn = [seed + child for seed in seeds for child in range(count)]
        requests = [Request(p, seed, limit(seed)) for p, seed in zip(repeat(prompts, count), drawn, strict=True)]
        asked, begun = repeat(problems, count), dict[int, Future[Judged]]()

        def judge(place: int, completion: Completion) -> None:
            begun[place] = self.judging.begin(asked[place], completion)

        with doing("sampling"):
            self.sampler.converse(requests, decoding, once(judge))
        return self.judged(problems, prompts, [begun[place] for place in range(len(asked))], groups, count)

    def judged(
        self,
        problems: Sequence[Problem],
        prompts: Sequence[Sequence[int]],
        begun: Sequence["Future[Judged]"],
        groups: Sequence[int],
        count: int,
    ) -> Generated:
        """`count` completions of each problem, once they are judged, collated."""
        asked, ids = repeat(problems, count), repeat(groups, count)
        completions, texts, verdicts = zip(*self.judging.ended(asked, begun), strict=True)
        batch = collate(repeat(prompts, count), completions, verdicts, ids, [problem.id for problem in asked])
        rows = zip(asked, texts, completions, verdicts, ids, strict=True)
        answers = [
            Answer(problem, text, one.tokens, one.finish, group, row % count, verdict, self.prompts.messages(problem))
            for row, (problem, text, one, verdict, group) in enumerate(rows)
        ]
        return Generated(batch, answers)

    def played(
        self,
        player: Player,
        problems: Sequence[Problem],
        groups: Sequence[int],
        count: int,
        decoding: Decoding,
        draw: str,
        apart: int,
    ) -> Generated:
        """Episodes of an environment, `count` to each problem, as one batch and its answers; in the problems' order."""
        rows: list[Transcript] = []
        for problem, group in zip(problems, groups, strict=True):
            prompt, seed = self.prompts.encode(problem), self.seed_of(draw, group, apart)
            rows += [
                player.transcript(problem, prompt, seed + child, f"{draw}/{group}", child) for child in range(count)
            ]
        with doing("sampling"):
            player.play(rows, decoding)
        verdicts, ids = [verdict_of(row) for row in rows], repeat(groups, count)
        batch = collate_segments(
            [[Segment(row.prompt, None, chosen=False), *row.segments] for row in rows],
            verdicts,
            [row.cut for row in rows],
            [row.void for row in rows],
            [row.calls for row in rows],
            ids,
            [row.problem.id for row in rows],
        )
        answers = [
            Answer(
                row.problem, player.decode(row.ids[len(row.prompt) :]), row.chosen, "length" if row.cut else "stop",
                group, place % count, verdict, self.prompts.messages(row.problem), played_of(row),
            )
            for place, (row, verdict, group) in enumerate(zip(rows, verdicts, ids, strict=True))
        ]  # fmt: skip
        return Generated(batch, answers)

    def seed_of(self, draw: str, group: int, apart: int) -> int:
        """That of a group's first completion; the engine draws the i-th with seed + i."""
        digest = blake2b(f"{self.seed}/{draw}".encode(), digest_size=4).digest()
        return int.from_bytes(digest) + group * apart


def repeat(values: Sequence[T], count: int) -> list[T]:
    """Each value `count` times, one behind the other."""
    return [value for value in values for _ in range(count)]


def verdict_of(row: Transcript) -> Verdict:
    """Of an episode that is over."""
    assert row.verdict is not None
    return row.verdict


def played_of(row: Transcript) -> Played:
    """What rewards and records are told of an episode."""
    return Played(tuple(row.texts), row.calls, row.failed, row.observed, row.void, row.tool_seconds)
