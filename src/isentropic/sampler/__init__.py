"""Who answers?"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class Decoding:
    """How tokens are drawn. Raises ValueError for settings that no sampler can follow."""

    temperature: float  # 0 is greedy: the likeliest token, whatever the seed
    top_p: float  # 1 is off
    top_k: int  # 0 is off
    min_p: float  # 0 is off
    max_tokens: int  # of an answer, or of one turn
    stop: str | None  # a text that ends a completion as the end-of-sequence token does, and stays in it

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"temperature={self.temperature} is not above 0, nor 0, which takes the likeliest token")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} is not above 0 and at most 1, which switches it off")
        if self.top_k < 0:
            raise ValueError(f"top_k={self.top_k} is negative; 0 switches it off")
        if not 0 <= self.min_p < 1:
            raise ValueError(f"min_p={self.min_p} is not at least 0, which switches it off, and below 1")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens={self.max_tokens} is not at least 1")
        if self.stop == "":
            raise ValueError("stop='' is empty; it is a text, or null")

    @property
    def greedy(self) -> bool:
        """Whether there is one answer to each prompt."""
        return self.temperature == 0


class SamplerError(RuntimeError):
    """An engine that does not start, answer, or take weights, in one sentence."""


@dataclass(frozen=True)
class Request:
    """One completion to be written. Neighbours that share the very same list as their prompt may be read as one."""

    prompt: Sequence[int]
    seed: int  # of its own draws
    limit: int  # tokens that it may have, at most max_tokens of the decoding


@dataclass(frozen=True)
class Completion:
    """What the engine wrote. Whole tokens: where finish is "stop", with the one that ends it, and all that it holds."""

    tokens: list[int]
    logp: list[float] | None  # log-prob of each token under the sampling distribution; None where it was not asked for
    finish: Literal["stop", "length"]


class Piece(NamedTuple):
    """What there is of a completion that was halted; nothing of one that was not begun."""

    tokens: list[int]
    logp: list[float] | None  # as a completion's


Reply = Callable[[int, Completion], "Future[Request | None]"]  # a row's place, and what it wrote, to its next request
Done = Callable[[int, Completion], object]  # is told a row's place, and what it wrote
Halted = Callable[[], bool]  # whether to stop in the middle


class Sampler(ABC):
    """An engine with weights of its own, which start empty or as on disk and follow the policy through `load`."""

    dtype: str  # float32 or bfloat16, in which it takes weights at the least cost

    @property
    def returns_logprobs(self) -> bool:
        """Whether every completion comes with its log-probs."""
        return True

    @property
    def is_remote(self) -> bool:
        """Whether it can answer while the policy learns."""
        return False

    @property
    def halts(self) -> bool:
        """Whether it can stop in the middle of completions, as `write_until` asks for."""
        return False

    @property
    def keeps(self) -> bool:
        """Whether what it halted can go on from keys and values of older weights, as `write_until` has with `keep`."""
        return False

    def check_ranks(self, ranks: int) -> None:
        """Raises ValueError where so many ranks cannot share the sampler, or this machine cannot have it."""

    @abstractmethod
    def start(self) -> None:
        """Builds the engine. Called once, after the process group exists; leaves the caller's RNG state untouched."""

    @property
    def context(self) -> int | None:
        """Tokens that a prompt and what is written after it may have together; None where there is no model."""
        return getattr(self, "max_model_len", None)

    def check(self, prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int], decoding: Decoding) -> None:
        """Raises ValueError where `sample` cannot be asked for this."""

    def sample(
        self, prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int], decoding: Decoding
    ) -> list[list[Completion]]:
        """`count` completions of each prompt, in order.

        Child i of a prompt is drawn with seed + i, so callers space seeds by `count`.
        """
        self.check(prompts, count, seeds, decoding)
        requests = [
            Request(prompt, seed + child, decoding.max_tokens)
            for prompt, seed in zip(map(list, prompts), seeds, strict=True)
            for child in range(count)
        ]
        written = self.write(requests, decoding)
        return [written[first : first + count] for first in range(0, len(written), count)]

    @abstractmethod
    def write(self, requests: Sequence[Request], decoding: Decoding) -> list[Completion]:
        """A completion of each request, in order; each depends on its own prompt, seed and limit alone."""

    def converse(self, requests: Sequence[Request], decoding: Decoding, reply: Reply) -> None:
        """Turn after turn, until no row has a next request.

        Here a turn is written by all rows before the next begins; engines that can, go on with a row whose reply came.
        """
        going = dict(enumerate(requests))
        while going:
            written = self.write(list(going.values()), decoding)
            replies = [(place, reply(place, one)) for place, one in zip(going, written, strict=True)]
            answers = [(place, future.result()) for place, future in replies]
            going = {place: request for place, request in answers if request is not None}

    def write_until(
        self,
        requests: Sequence[Request],
        decoding: Decoding,
        at_once: int,
        done: Done,
        halted: Halted,
        keep: bool = False,
    ) -> dict[int, Piece]:
        """Begins requests in their order, until all are done or `halted()`.

        Where a request can take the place of one that is done, `at_once` of them are written at a time.
        `done` is told each completion and its place as soon as it is there, and `halted` is asked after every step.
        Returns by place what there is of the others; those that were not begun may be left out. With `keep` these stay
        in the engine: a later request for the rest of one, known by its seed, goes on with the keys and values that
        there are of it, of older weights where these have changed. Raises SamplerError where an engine cannot stop in
        the middle, or keep what it stopped.
        """
        raise SamplerError(f"{type(self).__name__} cannot stop in the middle of its completions")

    def check_keep(self, keep: bool) -> None:
        """Raises SamplerError where it is to keep what it halts, and cannot."""
        if keep and not self.keeps:
            raise SamplerError(f"{type(self).__name__} computes anew what goes on after it was halted, and keeps none")

    @property
    def read(self) -> tuple[int, int] | None:
        """Prompt tokens so far, and those of them that were in the cache; None where the engine does not say."""

    @property
    def slots(self) -> tuple[int, int] | None:
        """Places for a sequence in all steps so far, and those that had none; None where the engine does not say.

        There are as many at a time as the engine takes, or, where fewer completions are asked for together, as these.
        """

    def participate_idle(self, decoding: Decoding) -> None:
        """To be called when a rank has no more to ask for now: where ranks answer together, the others may have."""

    @abstractmethod
    def score(self, tokens: Sequence[int]) -> list[float] | None:
        """Log-probs at temperature 1 of tokens[1:], each given those before it; None where the sampler has no model."""

    @abstractmethod
    def update_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Takes Hugging Face names and whole tensors, tied aliases included, to the end, and forgets what it cached."""

    def sleep(self) -> None:
        """Gives memory back while the policy trains."""

    def wake(self) -> None:
        """Undoes `sleep`; called before `load`."""

    def stop(self) -> None:
        """Ends the engine and its processes."""


def once(done: Done) -> Reply:
    """To rows that have one turn: `done` is told what each of them writes, and it writes no more."""
    nothing: Future[Request | None] = Future()
    nothing.set_result(None)

    def reply(place: int, completion: Completion) -> "Future[Request | None]":
        done(place, completion)
        return nothing

    return reply


def seed_after(seed: int, length: int) -> int:
    """Of the rest of a completion whose first `length` tokens were drawn with `seed`, where it is asked for anew."""
    return int.from_bytes(blake2b(f"{seed}/{length}".encode(), digest_size=8).digest()) >> 1
