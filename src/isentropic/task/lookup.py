"""Look up over several hops: what stands at a key is the next key, and only calls read the table."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import get_args

from isentropic.task import Problem, Split, Status, Verdict
from isentropic.task.answers import after_marker, whole_integer
from isentropic.task.endless import Endless, check_held_out, seed_of, split_of
from isentropic.task.environment import Environment, Reply
from isentropic.task.prompts import check_template, fill

CALL = re.compile(r"get\((\d{1,18})\)")
DRAWS = 10_000  # more than enough to meet the rarest split; only very few numbers use them up
MOST = 64  # calls of one turn that are answered


@dataclass(frozen=True)
class Search:
    """What stands where, and what the end of the way is."""

    table: Mapping[int, int]
    answer: int  # the number at the end
    marker: str

    def step(self, text: str) -> Reply:
        """Looks up the keys that a turn calls for; a number after the marker ends it, and neither voids the turn."""
        calls = list(CALL.finditer(text))
        given = after_marker(text[calls[-1].end() :] if calls else text, self.marker)
        if given is not None:
            return ended(whole_integer(given), self.answer)
        if not calls:
            return Reply("", Verdict(0.0, False, "void"), void=True)
        found = [self.table.get(int(call[1])) for call in calls[:MOST]]
        first, *more = [f"{'nothing' if one is None else one}\n" for one in found]
        return Reply(first, calls=len(found), failed=found.count(None), more=tuple(more))

    def close(self) -> None:
        """Nothing is held open."""


def ended(given: int | None, answer: int) -> Reply:
    """The last reply, without text."""
    status: Status = "unparseable" if given is None else "right" if given == answer else "wrong"
    return Reply("", Verdict(float(status == "right"), status == "right", status))


@dataclass(frozen=True)
class Lookup(Environment):
    """Problems are where to begin, which is their reference; the table is drawn by the seed of the episode's world.

    Raises ValueError for settings that allow no problem of one of the splits.
    """

    keys: int  # in a table
    largest: int  # keys are drawn from 1 to this
    hops: int  # look-ups from the beginning to the answer
    template: str  # the prompt, with {question} for the key to begin with, and {hops}
    marker: str  # the rest of the line after the last of these must be the number at the end
    held_out: float  # share of the keys that training never begins with, whatever the seed: half validation, half test
    seed: int  # of the training problems
    test_seed: int = 0  # of the test and the validation problems
    stop: str | None = None  # a text that ends a turn besides the model's own end

    def __post_init__(self) -> None:
        check_template(self.template)
        check_held_out(self.held_out)
        if not self.marker:
            raise ValueError("task.marker is empty; an answer must be told from a call, as by Answer:")
        for name, least in (("hops", 1), ("keys", self.hops + 1), ("largest", self.keys)):
            if getattr(self, name) < least:
                raise ValueError(f"task.{name}={getattr(self, name)} must be at least {least}")
        for split in get_args(Split):
            self.problem(split, 0)

    def problems(self, split: Split) -> Sequence[Problem]:
        return Endless(partial(self.problem, split))

    def problem(self, split: Split, index: int) -> Problem:
        """A first key of this split. Raises ValueError where the settings allow none."""
        draw = Random(f"{seed_of(split, self.seed, self.test_seed)}/{split}/{index}")
        for _ in range(DRAWS):
            key = draw.randint(1, self.largest)
            if split_of(str(key), self.held_out) == split:
                return Problem(fill(self.template.replace("{hops}", str(self.hops)), str(key)), key)
        raise ValueError(
            f"task.largest={self.largest} and task.held_out={self.held_out} allow no {split} problem; raise largest"
        )

    def begin(self, problem: Problem, seed: int) -> Search:
        """One round through all keys, so that no way comes back to where it began."""
        draw, start = Random(seed), problem.reference
        others = draw.sample([*range(1, start), *range(start + 1, self.largest + 1)], self.keys - 1)
        way = [start, *others]
        table = dict(zip(way, [*others, start], strict=True))
        return Search(table, way[self.hops], self.marker)

    def markers(self) -> Sequence[str]:
        return [self.marker]
