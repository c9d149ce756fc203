"""Answers from a table, for tests: no model, no chance."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from isentropic.sampler import Completion, Decoding, Request, Sampler


@dataclass
class ScriptedSampler(Sampler):
    """The answers of a prompt in turn, from the first again after the last, whatever the seeds and the temperature.

    An answer that does not end in `eos` or with the stop text, or is cut at its limit, finishes by length.
    Raises KeyError for a prompt without answers.
    """

    answers: Mapping[tuple[int, ...], Sequence[Sequence[int]]]  # what is written after each prompt
    eos: int
    decode: Callable[[Sequence[int]], str] | None = None  # to look for a stop text; without it, answers are as they are
    dtype: str = field(init=False, default="float32")
    events: list[str] = field(init=False, default_factory=list[str])  # what was asked of it, in order
    turns: dict[tuple[int, ...], int] = field(init=False, default_factory=dict[tuple[int, ...], int])

    def start(self) -> None:
        self.events.append("start")

    def write(self, requests: Sequence[Request], decoding: Decoding) -> list[Completion]:
        self.events.append("sample")
        return [self.next_answer(tuple(request.prompt), request.limit, decoding.stop) for request in requests]

    def next_answer(self, prompt: tuple[int, ...], limit: int, stop: str | None) -> Completion:
        """The prompt's next answer in turn, cut at `limit` tokens; by stop at the end token or text, else by length."""
        turn = self.turns.get(prompt, 0)
        self.turns[prompt] = turn + 1
        answers = self.answers[prompt]
        tokens = list(answers[turn % len(answers)])[:limit]
        stopped = self.stopped(tokens, stop)
        tokens = tokens if stopped is None else tokens[:stopped]
        return Completion(tokens, None, "stop" if stopped or tokens[-1:] == [self.eos] else "length")

    def stopped(self, tokens: list[int], stop: str | None) -> int | None:
        """How many tokens there are when the stop text stands there; None where it never does."""
        if self.decode is None or stop is None:
            return None
        return next((n for n in range(1, len(tokens) + 1) if stop in self.decode(tokens[:n])), None)

    def score(self, tokens: Sequence[int]) -> list[float] | None:
        return None

    def update_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        for _ in weights:
            pass
        self.events.append("update_weights")

    def sleep(self) -> None:
        self.events.append("sleep")

    def wake(self) -> None:
        self.events.append("wake")

    def stop(self) -> None:
        self.events.append("stop")
