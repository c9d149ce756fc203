"""Turn after turn of many episodes: what the policy writes goes to their worlds, what these say is read by the policy.

Token ids are only ever appended. Text is made of them to be read by a world, and ids of a world's text alone.
"""

import traceback
import warnings
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from threading import RLock
from typing import Any

from isentropic.rollout.collate import Segment
from isentropic.rollout.framing import Framing
from isentropic.rollout.side_by_side import GivenUpError, Outcome, Threads, after
from isentropic.rollout.turns import Turns
from isentropic.sampler import Completion, Decoding, Request, Sampler
from isentropic.task import Problem, Verdict
from isentropic.task.environment import Environment, Episode, Reply, check_episode, check_reply, own

CUT, SPENT, BROKEN = (Verdict(0.0, False, status) for status in ("unparseable", "budget", "crash"))
CLOSING = 10.0  # seconds that an episode may take to close


@dataclass
class Transcript:
    """One answer, as far as it has come."""

    problem: Problem
    prompt: Sequence[int]
    seed: int  # of its first completion
    name: str  # what its other seeds are made of
    world: int  # the seed of its world
    segments: list[Segment] = field(default_factory=list[Segment])  # after the prompt
    written: int = 0  # tokens of these that the policy wrote
    observed: int = 0  # tokens of these that it was told
    texts: list[str] = field(default_factory=list[str])  # of its own turns
    calls: int = 0  # of tools
    failed: int = 0  # of these, calls that gave an error
    tool_seconds: float = 0.0  # CPU time of calls
    seconds: float = 0.0  # wall clock in its world
    void: bool = False
    cut: bool = False  # its last completion ended by length, or there was no room for another; not by a budget of turns
    verdict: Verdict | None = None  # None while it goes on
    episode: Episode | None = None
    closing: "Future[None] | None" = None

    def add(self, part: Segment) -> None:
        """What comes next in the row."""
        self.segments.append(part)
        if part.chosen:
            self.written += len(part.tokens)
        else:
            self.observed += len(part.tokens)

    @property
    def chosen(self) -> list[int]:
        """Token ids that the policy wrote, of all turns."""
        return [token for part in self.segments if part.chosen for token in part.tokens]

    @property
    def size(self) -> int:
        """Tokens of prompt, turns and observations."""
        return len(self.prompt) + self.written + self.observed

    @property
    def ids(self) -> Sequence[int]:
        """The prompt itself before the first turn, so that the answers of a group share it."""
        ids = list(self.prompt)
        for part in self.segments:
            ids += part.tokens
        return ids if self.written or self.observed else self.prompt


@dataclass(frozen=True)
class Player:
    """What a row hears and reads is its own affair: none depends on the others, nor on which of them ends first."""

    task: Environment
    sampler: Sampler
    framing: Framing
    turns: Turns
    seed: int  # of the run: each turn draws from its own
    said: set[str] = field(default_factory=set[str], compare=False)  # what was warned of
    lock: Any = field(default_factory=RLock, compare=False, repr=False)  # of the tokenizer, and of what was said

    def play(self, rows: list[Transcript], decoding: Decoding) -> None:
        """Until each has its verdict; every episode that began is closed, whatever happens."""
        with Threads(self.turns.workers) as steps, Threads(self.turns.workers) as closings:

            def reply(place: int, completion: Completion) -> Future[Request | None]:
                row = going[place]
                self.append(row, completion)
                left = max(0.0, self.turns.seconds - row.seconds)
                heard = steps.submit(lambda: check_reply(of(row).step(row.texts[-1])), left)
                return after(heard, lambda outcome: self.hear(row, outcome, decoding, closings))

            try:
                self.begin(rows)
                going = [row for row in rows if row.verdict is None]
                self.sampler.converse([self.request(row, decoding) for row in going], decoding, reply)
            finally:
                for row in rows:
                    self.close(row, closings)
                for row in rows:
                    if row.closing:
                        row.closing.result()

    def transcript(self, problem: Problem, prompt: Sequence[int], seed: int, place: str, child: int) -> Transcript:
        """`place` names the group among all that are ever asked, `child` the answer in it."""
        name = f"{self.seed}/{place}/{child}"
        world = f"{self.seed}/{place}" if self.turns.shared_world else name
        return Transcript(problem, prompt, seed, name, seed_of(f"{world}/world"))

    def request(self, row: Transcript, decoding: Decoding) -> Request:
        """The next turn, with a seed of its own and what room is left in the row."""
        turn = len(row.texts)
        seed = seed_of(f"{row.name}/{turn}") if turn else row.seed
        return Request(row.ids, seed, self.room(row, decoding))

    def room(self, row: Transcript, decoding: Decoding) -> int:
        """Tokens that the next completion may have; below 1, there is none."""
        left = [decoding.max_tokens - row.written]
        left += [] if self.turns.turn_tokens is None else [self.turns.turn_tokens]
        context = self.sampler.context
        left += [] if context is None or not row.segments else [context - row.size]
        return min(left)

    def begin(self, rows: Sequence[Transcript]) -> None:
        """Opens the worlds, side by side and within the time of an episode; a failure is the episode's verdict.

        Raises ValueError where two answers are given the same episode, in which each would hear what the other did.
        """
        calls = [lambda row=row: check_episode(self.task.begin(own(row.problem), row.world)) for row in rows]
        with Threads(self.turns.workers) as threads:
            opened = [
                after(threads.submit(call, self.turns.seconds, lambda late: late.close()), partial(self.opened, row))
                for row, call in zip(rows, calls, strict=True)
            ]
            for future in opened:
                future.result()
        open_now = [row.episode for row in rows if row.episode is not None]
        if len({id(episode) for episode in open_now}) < len(open_now):
            raise ValueError(
                f"{type(self.task).__name__}.begin returned the same episode for two answers; each must have its own"
            )

    def opened(self, row: Transcript, outcome: Outcome[Episode]) -> None:
        """A world, or what kept it from beginning, which is said at once: others may take long."""
        row.seconds += outcome.seconds
        row.episode = outcome.value
        row.verdict = self.failure("begin", outcome)

    def append(self, row: Transcript, completion: Completion) -> None:
        """A turn as it was sampled: its tokens, and text made of them."""
        row.add(Segment(completion.tokens, completion.logp, chosen=True))
        row.texts.append(self.decode(completion.tokens))
        row.cut = completion.finish == "length"

    def hear(self, row: Transcript, outcome: Outcome[Reply], decoding: Decoding, closings: Threads) -> Request | None:
        """The row's next turn; None where it has none, and is then closed."""
        row.seconds += outcome.seconds
        row.verdict = self.failure("step", outcome)
        if outcome.value is not None:
            self.take(row, outcome.value, decoding)
        if row.verdict is None:
            return self.request(row, decoding)
        self.close(row, closings)
        return None

    def take(self, row: Transcript, reply: Reply, decoding: Decoding) -> None:
        """Ends the row, or appends what is to be read before its next turn."""
        row.calls, row.failed = row.calls + reply.calls, row.failed + reply.failed
        row.tool_seconds, row.void = row.tool_seconds + reply.seconds, row.void or reply.void
        spent = self.room(row, decoding) < 1
        row.verdict = reply.verdict or (CUT if spent else SPENT if self.over(row) else None)
        if row.verdict is None:
            with self.lock:
                observed = self.observation(row, (reply.text, *reply.more))
            if observed:
                row.add(Segment(observed, None, chosen=False))
            if observed is None or self.room(row, decoding) < 1:
                row.verdict = CUT
        row.cut = row.verdict is CUT or (row.cut and row.verdict is not SPENT)

    def over(self, row: Transcript) -> bool:
        """Whether another turn would pass a limit: of turns, calls, seconds of tools, seconds of the episode."""
        turns = self.turns
        counted = (
            (turns.turns, len(row.texts) + 1),
            (turns.calls, row.calls),
            (turns.tool_seconds, row.tool_seconds),
            (turns.seconds, row.seconds),
        )
        return any(limit is not None and count > limit for limit, count in counted)

    def observation(self, row: Transcript, texts: tuple[str, ...]) -> list[int] | None:
        """Its ids, perhaps cut; None where they do not fit."""
        tokens = row.segments[-1].tokens
        ended = bool(tokens) and tokens[-1] == self.framing.end
        left = [self.turns.observation_tokens]
        if self.turns.observed_tokens is not None:
            left.append(self.turns.observed_tokens - row.observed)
        if self.sampler.context is not None:
            left.append(self.sampler.context - row.size)
        return self.framing.fitted(texts, ended, min(left))

    def failure(self, method: str, outcome: Outcome[Any]) -> Verdict | None:
        """What an error is worth; said once, as all episodes may have it."""
        error = outcome.error
        if error is None:
            return None
        said, kind = f"{type(self.task).__name__}.{method} {described(error)}", f"{method} {kind_of(error)}"
        with self.lock:
            if kind not in self.said:
                self.said.add(kind)
                end = "was over and keeps its reward" if method == "close" else "ends there with a reward of 0"
                what = f"{said}; the episode {end}, here and wherever this happens"
                warnings.warn(what, stacklevel=2)
        return SPENT if isinstance(error, GivenUpError) else BROKEN

    def close(self, row: Transcript, closings: Threads) -> None:
        """If it is open; an episode that hangs may end by this."""
        with self.lock:
            episode, row.episode = row.episode, None
        if episode is not None:
            row.closing = after(closings.submit(episode.close, CLOSING), self.closed)

    def closed(self, outcome: Outcome[None]) -> None:
        """What closing raised is warned of."""
        self.failure("close", outcome)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of ids, without special tokens, as worlds read it; a tokenizer is not safe in threads."""
        with self.lock:
            text = self.framing.prompts.tokenizer.decode(
                list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        assert isinstance(text, str)
        return text


def of(row: Transcript) -> Episode:
    """The episode of a row whose world was opened."""
    assert row.episode is not None
    return row.episode


def described(error: BaseException) -> str:
    """An error in a sentence of at most 200 characters, with the place where it was raised."""
    try:
        said = " ".join(str(error).split())[:200]
    except Exception:  # whatever its own code does
        said = ""
    if isinstance(error, GivenUpError):
        return said
    return f"raised {type(error).__name__}: {said}{place_of(error)}"


def kind_of(error: BaseException) -> str:
    """What it has in common with others of its kind, whose sentences may have a number or a time in them."""
    return f"{type(error).__name__}{place_of(error)}"


def place_of(error: BaseException) -> str:
    """Where it was raised, to be put behind a sentence."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" in {frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def seed_of(name: str) -> int:
    """63 bits, the same on every machine."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1
