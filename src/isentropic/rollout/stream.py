"""Ask, answer, verify, curate, until the batch is full. One item is one rollout, made when it is asked for."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import torch

from isentropic.batch import RolloutBatch
from isentropic.distributed import average, gather_objects, gather_pairs, largest, rank, world_size
from isentropic.phases import doing
from isentropic.reductions import group_mean
from isentropic.reward import Answer
from isentropic.reward.total import PARTS, Rewards, Tally, means
from isentropic.rollout.collate import concatenate
from isentropic.rollout.curation import Curator
from isentropic.rollout.generate import Generated, RolloutGenerator
from isentropic.rollout.partial import PartialRollouts
from isentropic.rollout.reasoning import tally_of_reasoning
from isentropic.rollout.reflection import reflects
from isentropic.rollout.sampling import Asked, Order, ProblemSampler
from isentropic.rollout.shares import (
    cached_share,
    charges,
    idle_share,
    means_of_reasoning,
    shares,
    shares_of_turns,
    since,
    tally,
    tally_of_turns,
)
from isentropic.sampler import Decoding
from isentropic.state import Memory, drawing_apart, is_stateful, seed_shared
from isentropic.task import Problem

APART = 2**16  # between the seeds of two problems of an evaluation: no problem has as many completions
FIRST = 2  # rollouts after which parts are looked at, besides every checkpoint


@dataclass(frozen=True)
class Drawn:
    """What one rank asked for one rollout."""

    batch: RolloutBatch
    tries: int  # batches that were asked for
    seen: Counter[str]
    rewards: Tally
    order: Order
    rates: list[tuple[float, float]]  # of each group asked, its turn and the share that was right
    fallback: RolloutBatch | None
    read: tuple[int, int] | None  # prompt tokens that the engine was given for it, and how many of them it had cached
    slots: tuple[int, int] | None  # of the engine in all steps of it, and how many of them had no sequence


class RolloutStream:
    """Sized, so that Lightning fetches rollout k + 1 only after update k. Its position is part of the checkpoint.

    Where it draws ahead, rollout k + 1 is drawn during update k, by the policy before it; a resumed run draws it again,
    by the policy it resumes with. Partial rollouts are saved as they are, and go on.
    """

    def __init__(
        self,
        generator: RolloutGenerator,
        problems: Sequence[Problem],
        rewards: Rewards,
        curate: dict[str, Curator],
        sampling: ProblemSampler,
        decoding: Decoding,
        steps: int,
        prompts: int,  # of one rollout, over all ranks
        group: int,
        max_tries: int,  # rounds of asking for one rollout
        seed: int,
        ahead: bool,
        staleness: int | None = None,  # at most so many updates between drawing and learning; None is whole answers
        stale_cache: bool = False,  # of answers that go on; rollout/partial.py
    ) -> None:
        self.generator, self.problems, self.decoding = generator, problems, decoding
        self.rewards, self.curate, self.sampling = rewards, curate, sampling
        self.memory = Memory(
            {"rollout.sampling": sampling}
            | {f"rollout.curation.{name}": curator for name, curator in curate.items()}
            | {f"reward.{name}": reward for name, reward in rewards.parts.items()}
            | ({"task": generator.task} if is_stateful(generator.task) else {})
        )
        self.snapshot: dict[str, Any] | None = None  # from before what is drawn ahead
        self.steps, self.prompts, self.group, self.max_tries, self.seed = steps, prompts, group, max_tries, seed
        self.step = 0  # rollouts made
        self.position = 0  # prompts asked, over all ranks; the next one's group id
        self.example: Answer | None = None  # the first of this run
        self.report: dict[str, float] = {}  # of the last rollout, over all ranks
        self.aside = ThreadPoolExecutor(1) if ahead else None
        self.coming: Future[Drawn | None] | None = None
        self.partial: PartialRollouts | None = None
        if staleness is not None:
            share = prompts // world_size()
            self.partial = PartialRollouts(
                generator, self.numbered, decoding, share, group, staleness, steps, rank(), world_size(),
                stale_cache,
            )  # fmt: skip

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[RolloutBatch]:
        while self.step < self.steps:
            rollout = self.fill()
            self.step += 1
            if self.step <= FIRST:
                self.memory.check()
            if self.aside and self.step < self.steps:
                self.coming = self.draw_ahead(self.aside)
            yield rollout

    def draw_ahead(self, aside: ThreadPoolExecutor) -> "Future[Drawn | None]":
        """The next rollout, or of partial ones what comes of it and of later ones until the weights change."""
        if self.partial:
            self.partial.halting.clear()
            return aside.submit(self.partial.write_ahead, self.step - 1, self.step)
        self.snapshot = self.memory.snapshot()
        return aside.submit(self.draw)

    def wait_for_pending(self) -> None:
        """Waits for what is being drawn, or halts it if it is partial, so that the sampler may take other weights."""
        if self.partial:
            self.partial.halting.set()
        if self.coming:
            wait([self.coming])

    def numbered(self, number: int) -> Problem:
        """That of a group of partial rollouts."""
        return self.problems[self.sampling.order(self.problems, 0, self.prompts, self.seed)(number)]

    def fill(self) -> RolloutBatch:
        """The next rollout; the only place where ranks meet, as an update may run while another is drawn."""
        with doing("rollout"):
            if self.partial:
                self.wait_for_pending()
            drawn = self.coming.result() if self.coming else None
            return self.filled(self.draw() if drawn is None else drawn, ahead=drawn is not None)

    def filled(self, drawn: Drawn, ahead: bool) -> RolloutBatch:
        """The batch of what was drawn, its report, and the position after it; the fallback where nothing was kept."""
        self.coming = self.snapshot = None
        tries = largest(drawn.tries)  # ranks need not ask equally often
        wanted = self.prompts // world_size()
        self.report = {"rollout/tries": float(tries)} | shares(drawn.seen, groups(drawn.batch) / wanted)
        self.report |= means_of_reasoning(drawn.seen)
        self.report |= charges(drawn.seen, [name for name, curator in self.curate.items() if curator.charges])
        if self.generator.player:
            self.report |= shares_of_turns(drawn.seen)
        self.report |= cached_share(drawn.read) | idle_share(drawn.slots)
        self.report |= means(over_ranks(drawn.rewards, self.rewards), self.rewards)
        if self.sampling.state_dict():
            self.sampling.observe(self.asked(drawn), tries * self.prompts, self.prompts)
        self.position += tries * self.prompts
        if self.partial:
            self.position = largest(self.partial.begun) * world_size()
        batch = drawn.batch if len(drawn.batch.tokens) or drawn.fallback is None else drawn.fallback
        return replace(batch, staleness=batch.mask.long()) if ahead else batch

    def asked(self, drawn: Drawn) -> list[Asked]:
        """What all ranks asked, in its order. All ranks must call."""
        turns = sorted((int(turn), rate) for turn, rate in gather_pairs(drawn.rates))
        places = [drawn.order(turn) for turn, _ in turns]
        return [
            Asked(turn, place, self.problems[place].id, rate) for (turn, rate), place in zip(turns, places, strict=True)
        ]

    def draw(self) -> Drawn:
        """Rounds until enough groups are kept. After `max_tries`, what there is, or else one group as it was asked."""
        wanted = self.prompts // world_size()
        aside = self.aside is not None and self.partial is None
        seed_shared(self.seed, self.step, rank(), aside=aside)
        kept: list[RolloutBatch] = []
        seen, tally_of_rewards = Counter[str](), Tally()
        fallback: RolloutBatch | None = None
        order = self.sampling.order(self.problems, self.position, self.prompts, self.seed)
        rates, before, slots = list[tuple[float, float]](), self.generator.sampler.read, self.generator.sampler.slots
        while len(kept) < self.max_tries and sum(map(groups, kept)) < wanted:
            asked, answers = self.round(order, len(kept) * self.prompts)
            seed_shared(self.seed, self.step, rank(), len(kept), aside=aside)
            self.example = self.example or answers[0]
            seen.update(tally(asked))
            seen.update(answer.verdict.status for answer in answers)
            seen["reflection"] += sum(reflects(answer.own) for answer in answers)
            seen.update(tally_of_turns(answers))
            seen.update(tally_of_reasoning(self.generator.prompts, answers, asked))
            with doing("rewards"), drawing_apart(aside and not self.step):
                scores = self.rewards([replace(answer, step=self.step) for answer in answers])
            tally_of_rewards.add(scores)
            asked = replace(asked, reward=torch.tensor(scores.total, dtype=torch.float32))
            rates += rates_of(asked, self.position)
            kept.append(self.curated(asked, seen))
            fallback = fallback or first_groups(asked, 1)
        self.generator.sampler.participate_idle(self.decoding)
        read, slots = since(before, self.generator.sampler.read), since(slots, self.generator.sampler.slots)
        batch = first_groups(concatenate(kept), wanted)
        return Drawn(batch, len(kept), seen, tally_of_rewards, order, rates, fallback, read, slots)

    def round(self, order: Order, start: int) -> Generated:
        """This rank's share of the prompts, dealt out in turn: mini-batches hold what those of one rank would."""
        if self.partial:
            return self.partial.take(self.step, self.step)
        turns = range(start + rank(), start + self.prompts, world_size())
        problems, ids = [self.problems[order(turn)] for turn in turns], [self.position + turn for turn in turns]
        return self.generator.generate(problems, ids, self.group, self.decoding, draw="train")

    def curated(self, batch: RolloutBatch, seen: Counter[str]) -> RolloutBatch:
        """After all curators, in their order; what those that charge take off a reward is counted in `seen`."""
        for name, curator in self.curate.items():
            before, batch = batch, curator(batch)
            if curator.charges:
                taken = {
                    f"charged/{name}": float((before.reward - batch.reward).sum()),
                    f"charges/{name}": len(batch.group),
                }
                seen.update(taken)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """All ranks must call. Raises StateError for a part that would forget something."""
        self.memory.check()
        parts = self.memory.state_dict(self.snapshot)
        state = {"step": self.step, "position": self.position} | ({"parts": parts} if parts else {})
        if self.partial:
            self.wait_for_pending()
            state["begun"] = gather_objects(self.partial.state_dict())
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on after the rollout that was saved; parts that a checkpoint does not know start afresh."""
        self.step, self.position = state["step"], state["position"]
        self.memory.load_state_dict(state.get("parts", {}))
        if self.partial:
            self.partial.resume(state.get("begun"), self.position)


class EvaluationStream:
    """The same problems and seeds every time, whatever the number of completions; each rank answers its share.

    A rank that has none, as there are more ranks than problems, answers one that another counts.
    """

    def __init__(
        self,
        generator: RolloutGenerator,
        problems: Sequence[Problem],
        decoding: Decoding,
        count: int,
        places: Sequence[int],  # of those that are asked
        batch: int,
    ) -> None:
        self.generator, self.problems, self.decoding, self.count = generator, problems, decoding, count
        mine = places[rank() :: world_size()] or [places[rank() % len(places)]]
        self.batches = [mine[i : i + batch] for i in range(0, len(mine), batch)]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[RolloutBatch]:
        seed_shared(self.generator.seed, rank())  # else a task that draws would judge a resumed run otherwise
        for ids in self.batches:
            problems = [self.problems[i] for i in ids]
            with doing("evaluation"):
                batch, *_ = self.generator.generate(problems, ids, self.count, self.decoding, "test", APART)
            if ids is self.batches[-1]:
                self.generator.sampler.participate_idle(self.decoding)
            yield batch


def groups(batch: RolloutBatch) -> int:
    """Number of prompts in a batch."""
    return len(batch.group.unique())


def first_groups(batch: RolloutBatch, count: int) -> RolloutBatch:
    """Rows of the `count` lowest group numbers; the batch itself where it has no more."""
    numbers = batch.group.unique()
    return batch if len(numbers) <= count else batch[torch.isin(batch.group, numbers[:count])]


def rates_of(asked: RolloutBatch, position: int) -> list[tuple[float, float]]:
    """Of each group its turn in the rollout, and the share of its answers that were right."""
    right = group_mean(asked.correct.float(), asked.group)
    return list(dict(zip((asked.group - position).tolist(), right.tolist(), strict=True)).items())


def over_ranks(tally: Tally, rewards: Rewards) -> dict[str, float]:
    """Sums and numbers of each reward, divided by the number of ranks. All must call."""
    names = [f"{name}/{part}" for name in rewards.parts for part in PARTS]
    sums = torch.tensor([tally.sums.get(name, 0.0) for name in names], dtype=torch.float64)
    return dict(zip(names, average(sums).tolist(), strict=True))
