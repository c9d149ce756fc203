"""Answers that are begun before they are needed, halted when the weights change, and go on with those that came.

Groups are learnt from in the order in which they were begun, whenever they end: none is preferred for being short, and
none is dropped. So the limit on how far ahead groups are begun is the limit on how old a token may be.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from threading import Event
from typing import Any

import torch
from torch import Tensor

from isentropic.phases import doing
from isentropic.rollout.generate import Generated, RolloutGenerator
from isentropic.rollout.judging import Judged
from isentropic.sampler import Completion, Decoding, Piece, Request, seed_after
from isentropic.state import StateError
from isentropic.task import Problem


@dataclass
class Begun:
    """One answer, in pieces: each was drawn by one version of the policy, from all tokens before it."""

    seed: int  # of its first token
    limit: int  # tokens that it may have
    tokens: list[int] = field(default_factory=list[int])
    logp: list[float] = field(default_factory=list[float])
    versions: list[int] = field(default_factory=list[int])  # of each token: the rollouts its policy had learnt from
    finish: str | None = None  # None while it goes on
    judged: "Future[Judged] | None" = None  # once it is over

    def add(self, tokens: list[int], logp: list[float] | None, version: int) -> None:
        """Raises ValueError where the sampler gave no log-probs, without which nothing corrects for the version."""
        if logp is None or len(logp) != len(tokens):
            raise ValueError("rollout.partial=true needs the log-probs of all tokens; take sampler.logprobs=all")
        self.tokens += tokens
        self.logp += logp
        self.versions += [version] * len(tokens)

    def request(self, prompt: list[int]) -> Request:
        """The rest of it. What is written is read anew: the weights may be others, and so is the cache of them."""
        if not self.tokens:
            return Request(prompt, self.seed, self.limit)
        length = len(self.tokens)
        return Request([*prompt, *self.tokens], seed_after(self.seed, length), self.limit - length)

    def completion(self) -> Completion:
        """Once it is over."""
        return Completion(self.tokens, self.logp, "stop" if self.finish == "stop" else "length")


@dataclass
class Group:
    """The answers to one prompt."""

    number: int  # over all ranks, in the order in which groups are begun
    problem: Problem
    prompt: list[int]
    answers: list[Begun]

    @property
    def waits(self) -> int:
        """Answers that are not over."""
        return sum(answer.finish is None for answer in self.answers)


class PartialRollouts:
    """This rank's groups that were begun and not learnt from, the oldest first.

    Groups are begun as long as the rollout that learns from them comes at most `staleness` versions after that of the
    weights at present; as each rollout takes at least `share` of them, there are at most (staleness + 1) * share.
    """

    def __init__(
        self,
        generator: RolloutGenerator,
        problem: Callable[[int], Problem],  # by the number of its group
        decoding: Decoding,
        share: int,  # groups of one rollout on this rank
        count: int,  # answers of a group
        staleness: int,
        rollouts: int,  # of the run: none is begun for later ones
        rank: int,
        ranks: int,
        stale_cache: bool = False,  # what goes on keeps the keys and values of older weights
    ) -> None:
        self.generator, self.problem, self.decoding = generator, problem, decoding
        self.share, self.count, self.staleness, self.rollouts = share, count, staleness, rollouts
        self.rank, self.ranks, self.stale_cache = rank, ranks, stale_cache
        self.groups = deque[Group]()
        self.begun = 0  # groups of this rank so far
        self.halting = Event()  # set while the weights are to change

    def take(self, version: int, rollout: int) -> Generated:
        """The oldest `share` of the groups, once they are over, judged; for a rollout by its number."""
        self.write(version, rollout, self.share)
        groups = [self.groups.popleft() for _ in range(self.share)]
        batch, answers = self.generator.judged(
            [group.problem for group in groups],
            [group.prompt for group in groups],
            [self.judging(group, answer) for group in groups for answer in group.answers],
            [group.number for group in groups],
            self.count,
        )
        staleness = staleness_of(groups, rollout, batch.tokens.shape[1])
        return Generated(replace(batch, staleness=staleness), answers)

    def judging(self, group: Group, answer: Begun) -> "Future[Judged]":
        """Of an answer that is over; begun anew where it came out of a checkpoint."""
        answer.judged = answer.judged or self.generator.judging.begin(group.problem, answer.completion())
        return answer.judged

    def write_ahead(self, version: int, rollout: int) -> None:
        """For the rollouts from this one on, until it is halted or all that may be begun is over."""
        self.write(version, rollout, None)

    def write(self, version: int, rollout: int, wanted: int | None) -> None:
        """Until the oldest `wanted` are over; None is until all are, or it is halted."""
        while len(self.groups) < (min(version + self.staleness + 1, self.rollouts) - rollout) * self.share:
            self.begin()
        rows = [(group, answer) for group in self.groups for answer in group.answers if answer.finish is None]
        oldest = {id(group) for group in islice(self.groups, wanted)}
        left = sum(id(group) in oldest for group, _ in rows)

        def done(place: int, completion: Completion) -> None:
            nonlocal left
            group, answer = rows[place]
            self.add(answer, completion, version)
            answer.finish = completion.finish
            self.judging(group, answer)
            left -= id(group) in oldest

        def halted() -> bool:
            return not left or (wanted is None and self.halting.is_set())

        if left:
            requests = [answer.request(group.prompt) for group, answer in rows]
            with doing("sampling"):
                pieces = self.generator.sampler.write_until(
                    requests, self.decoding, self.share * self.count, done, halted, self.stale_cache
                )
            for place, piece in pieces.items():
                self.add(rows[place][1], piece, version)

    def add(self, answer: Begun, piece: Completion | Piece, version: int) -> None:
        """Tokens of these weights, or with a stale cache of all since those that the answer was begun with."""
        answer.add(piece.tokens, piece.logp, answer.versions[0] if self.stale_cache and answer.versions else version)

    def begin(self) -> None:
        """One group more, of this rank's numbers."""
        number = self.begun * self.ranks + self.rank
        self.groups.append(self.group(number, self.problem(number)))
        self.begun += 1

    def group(self, number: int, problem: Problem) -> Group:
        """Without a token yet."""
        first = self.generator.seed_of("train", number, self.count)
        limit = self.generator.limit or (lambda seed: self.decoding.max_tokens)
        answers = [Begun(first + child, limit(first + child)) for child in range(self.count)]
        return Group(number, problem, list(self.generator.prompts.encode(problem)), answers)

    def state_dict(self) -> dict[str, Any]:
        """All that was begun, to the token; for a checkpoint."""
        groups = [
            {
                "number": group.number,
                "prompt": torch.tensor(group.prompt, dtype=torch.int32),
                "answers": [
                    {
                        "tokens": torch.tensor(answer.tokens, dtype=torch.int32),
                        "logp": torch.tensor(answer.logp, dtype=torch.float64),
                        "versions": torch.tensor(answer.versions, dtype=torch.int32),
                        "finish": answer.finish,
                    }
                    for answer in group.answers
                ],
            }
            for group in self.groups
        ]
        return {"begun": self.begun, "groups": groups}

    def resume(self, states: list[dict[str, Any]] | None, position: int) -> None:
        """From those of all ranks; from none, as of a run of whole answers, nothing has been begun after `position`.

        Raises StateError for another number of ranks or answers to a prompt.
        """
        if states is None:
            self.begun = -(-position // self.ranks)
            return
        if len(states) != self.ranks:
            raise StateError(
                f"the checkpoint has answers that were begun on {len(states)} ranks, and here are {self.ranks}; resume "
                "with as many, or with rollout.partial=false, which leaves them out"
            )
        sizes = {len(group["answers"]) for state in states for group in state["groups"]} - {self.count}
        if sizes:
            raise StateError(
                f"the checkpoint has begun {sizes.pop()} answers to a prompt, and rollout.group_size={self.count}; "
                "resume with as many, or with rollout.partial=false, which leaves them out"
            )
        self.load_state_dict(states[self.rank])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on with what was begun, by the problems that its numbers stand for.

        Raises StateError where these are others by now, or have less room for answers than is written.
        """
        self.begun = state["begun"]
        self.groups = deque(self.group(saved["number"], self.problem(saved["number"])) for saved in state["groups"])
        for group, saved in zip(self.groups, state["groups"], strict=True):
            if group.prompt != saved.get("prompt", torch.tensor(group.prompt)).tolist():
                raise StateError(
                    f"the checkpoint has begun answers to another prompt than that of group {group.number} here; "
                    "resume with the task, seed, prompts and tokenizer that wrote it, or with rollout.partial=false, "
                    "which leaves them out"
                )
            for answer, known in zip(group.answers, saved["answers"], strict=True):
                answer.tokens, answer.logp = known["tokens"].tolist(), known["logp"].tolist()
                answer.versions, answer.finish = known["versions"].tolist(), known["finish"]
                if answer.finish is None and len(answer.tokens) >= answer.limit:
                    raise StateError(
                        f"the checkpoint has begun an answer of {len(answer.tokens)} tokens, and "
                        f"rollout.decoding.max_tokens leaves it {answer.limit}; resume with as many as before, or with "
                        "rollout.partial=false, which leaves it out"
                    )


def staleness_of(groups: list[Group], rollout: int, width: int) -> Tensor:
    """Of each token, updates between the policy that drew it and the one that learns from it; [B, width]."""
    rows = [(group.prompt, answer) for group in groups for answer in group.answers]
    found = torch.zeros(len(rows), width, dtype=torch.long)
    for row, (prompt, answer) in enumerate(rows):
        found[row, len(prompt) : len(prompt) + len(answer.tokens)] = rollout - torch.tensor(answer.versions)
    return found
