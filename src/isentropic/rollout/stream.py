"""Ask, answer, verify, curate, until the batch is full. One item is one rollout, made when it is asked for."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from sys import maxsize

import torch

from isentropic.rollout.ask import Asker
from isentropic.rollout.collate import concatenate
from isentropic.rollout.curation import Curator
from isentropic.sampler import Decoding
from isentropic.tensors import largest, rank, world_size
from isentropic.task import Problem
from isentropic.types import RolloutBatch


class RolloutStream:
    """Sized, so that Lightning fetches rollout k + 1 only after update k. Its position is part of the checkpoint."""

    def __init__(
        self,
        ask: Asker,
        problems: Sequence[Problem],
        curate: dict[str, Curator],
        decoding: Decoding,
        steps: int,
        prompts: int,  # of one rollout, over all ranks
        group: int,
        max_tries: int,  # rounds of asking for one rollout
        seed: int,
    ) -> None:
        self.ask, self.problems, self.curate, self.decoding = ask, problems, curate, decoding
        self.steps, self.prompts, self.group, self.max_tries, self.seed = steps, prompts, group, max_tries, seed
        self.step = 0  # rollouts made
        self.rounds = 0  # rounds of asking, the same on all ranks
        self.report: dict[str, float] = {}  # of the last rollout

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[RolloutBatch]:
        while self.step < self.steps:
            rollout = self.fill()
            self.step += 1
            yield rollout

    def fill(self) -> RolloutBatch:
        """Rounds until enough groups are kept; after `max_tries`, what there is, and one group at least."""
        wanted = self.prompts // world_size() * self.group
        kept: list[RolloutBatch] = []
        asked, tries = RolloutBatch, 0
        self.ask.statuses.clear()
        while sum(len(b.tokens) for b in kept) < wanted and tries < self.max_tries:
            asked = self.round(self.rounds + tries)
            tries += 1
            curated = asked
            for curator in self.curate.values():
                curated = curator(curated)
            kept.append(curated)
        rollout = concatenate(kept)[:wanted]
        if not len(rollout.tokens):
            rollout = asked[: self.group]
        self.rounds += largest(tries)
        self.report = self.describe(rollout, wanted, tries)
        return rollout

    def round(self, number: int) -> RolloutBatch:
        share = self.prompts // world_size()
        first = number * self.prompts + rank() * share
        groups = list(range(first, first + share))
        problems = [self.problems[place(i, len(self.problems), self.seed)] for i in groups]
        return self.ask(problems, groups, self.group, self.decoding, draw="train")

    def describe(self, rollout: RolloutBatch, wanted: int, tries: int) -> dict[str, float]:
        answers = self.ask.statuses.total()
        failures = {f"rollout/{s}": self.ask.statuses[s] / answers for s in ("unparseable", "timeout", "crash")}
        return failures | {"rollout/tries": float(tries), "rollout/filled": len(rollout.tokens) / wanted}

    def state_dict(self) -> dict[str, int]:
        return {"step": self.step, "rounds": self.rounds}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.step, self.rounds = state["step"], state["rounds"]


class EvaluationStream:
    """The same problems and seeds every time; each rank answers its share."""

    def __init__(
        self, ask: Asker, problems: Sequence[Problem], decoding: Decoding, count: int, size: int, batch: int
    ) -> None:
        self.ask, self.problems, self.decoding, self.count = ask, problems, decoding, count
        mine = range(rank(), min(size, len(problems)), world_size())
        self.batches = [list(mine[i : i + batch]) for i in range(0, len(mine), batch)]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[RolloutBatch]:
        for indices in self.batches:
            yield self.ask([self.problems[i] for i in indices], indices, self.count, self.decoding, draw="test")


def place(index: int, size: int, seed: int) -> int:
    """Where the index-th problem asked stands in its set: as made if that is endless, else shuffled anew each epoch."""
    if size == maxsize:
        return index
    return _shuffled(size, seed, index // size)[index % size]


@lru_cache(maxsize=2)
def _shuffled(size: int, seed: int, epoch: int) -> list[int]:
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch)).tolist()
