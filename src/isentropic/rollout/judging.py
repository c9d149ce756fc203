"""Answers become text, and are judged where their task allows it, in a thread beside the engine that writes others."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple, cast

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from isentropic.phases import doing
from isentropic.sampler import Completion
from isentropic.task import Problem, Task, Verdict

DECODING = ("batch_decode", "decode", "_decode", "backend_tokenizer")  # what a tokenizer may do its own way


class Judged(NamedTuple):
    """A completion and its text; the verdict is None where the task judges all answers together."""

    completion: Completion
    text: str
    verdict: Verdict | None


Begun = tuple[Problem, Completion, "Future[Judged]"]


class Judging:
    """All that waits is taken at one time, by one thread: neither tokenizer nor task meets two callers at once."""

    def __init__(self, task: Task, tokenizer: PreTrainedTokenizerBase) -> None:
        self.task, self.tokenizer = task, tokenizer
        self.waiting: list[Begun] = []
        self.working = False
        self.lock = Lock()  # of these two
        self.thread = ThreadPoolExecutor(1, "judging")

    def begin(self, problem: Problem, completion: Completion) -> "Future[Judged]":
        """To be called as soon as an answer is there, from any thread."""
        judged = Future[Judged]()
        with self.lock:
            self.waiting.append((problem, completion, judged))
            idle, self.working = not self.working, True
        if idle:  # else the thread looks again, and need not be woken for each
            self.thread.submit(self.work)
        return judged

    def work(self) -> None:
        """In the thread: judges what waits, again and again until nothing does."""
        while True:
            with self.lock:
                taken, self.waiting = self.waiting, []
                self.working = bool(taken)
            if not taken:
                return
            self.judge(taken)

    def judge(self, taken: "Sequence[Begun]") -> None:
        """Ends the futures of these, by what judging raises if it does."""
        try:
            found = self.judged([one[0] for one in taken], [one[1] for one in taken])
            for (_, _, future), judged in zip(taken, found, strict=True):
                future.set_result(judged)
        except BaseException as error:
            for _, _, future in taken:
                future.set_exception(error)

    def judged(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judged]:
        """Their texts, and verdicts where the task may be asked for them here."""
        texts = texts_of(self.tokenizer, [completion.tokens for completion in completions])
        verdicts: Sequence[Verdict | None] = [None] * len(texts)
        if self.task.verifies_aside:
            with doing("verification"):
                verdicts = self.task.verify(problems, texts)
        return [Judged(*one) for one in zip(completions, texts, verdicts, strict=True)]

    def ended(self, problems: Sequence[Problem], begun: Sequence["Future[Judged]"]) -> list[Judged]:
        """All of a rollout, waited for. Raises what judging raised."""
        with doing("verification"):
            found = [one.result() for one in begun]
            if self.task.verifies_aside:
                return found
            verdicts = self.task.verify(problems, [one.text for one in found])
        return [one._replace(verdict=verdict) for one, verdict in zip(found, verdicts, strict=True)]


def texts_of(tokenizer: PreTrainedTokenizerBase, rows: Sequence[list[int]]) -> list[str]:
    """Without special tokens. A tokenizer that adds nothing to its backend's decoding is passed by: each token would be
    looked at in Python first, and the engine's thread would wait, which the backend lets go on."""
    if all(getattr(type(tokenizer), name, None) is getattr(PreTrainedTokenizerFast, name, ...) for name in DECODING):
        return cast(PreTrainedTokenizerFast, tokenizer).backend_tokenizer.decode_batch(list(rows))
    return tokenizer.batch_decode(list(rows), skip_special_tokens=True, clean_up_tokenization_spaces=False)
