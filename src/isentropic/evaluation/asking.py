"""Problems to kept answers: what is missing is asked, judged and added, batch by batch."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from isentropic.evaluation.answers import Answered, add, read_answers
from isentropic.evaluation.grader import Grade, Grader, Item
from isentropic.evaluation.grading import judged
from isentropic.evaluation.questions import AskedSet, seed_of
from isentropic.sampler import Completion, Sampler

Place = tuple[int, int]  # row of the set, child
Say = Callable[[str], None]


@dataclass(frozen=True)
class Asking:
    """An evaluation under way. `graders` are asked in order, and the first decides."""

    folder: Path
    sampler: Sampler
    tokenizer: PreTrainedTokenizerBase
    graders: Mapping[str, Mapping[str, Grader]]  # by set, by name
    seed: int  # of the evaluation: each answer draws from its own
    batch: int  # answers that are asked at one time, and kept together
    say: Say

    def ask(self, sets: Sequence[AskedSet]) -> None:
        """All that the folder does not hold yet."""
        for one, places in zip(sets, self.missing(sets), strict=True):
            self.ask_set(one, places)

    def missing(self, sets: Sequence[AskedSet]) -> list[list[Place]]:
        """Of each set, what the folder does not hold yet."""
        kept = {one.key for one in read_answers(self.folder)}
        return [
            [
                (row, child)
                for row, asked in enumerate(one.asked)
                for child in range(one.count)
                if (one.name, asked.problem, child) not in kept
            ]
            for one in sets
        ]

    def ask_set(self, one: AskedSet, missing: Sequence[Place]) -> None:
        """Asks what is missing of a set, batch by batch; each batch is on disk before the next is asked."""
        done, written, began = one.answers - len(missing), 0, time.monotonic()
        if missing and done:
            self.say(f"{one.name}: {done} of {one.answers} answers are there already")
        for places in parts(missing, self.batch):
            answers = self.answers(one, places)
            add(self.folder, answers)
            done += len(answers)
            written += sum(answer.tokens for answer in answers)
            rate = written / max(time.monotonic() - began, 1e-9)
            self.say(f"{one.name}: {done}/{one.answers} answers, {rate:,.0f} tokens/s")

    def answers(self, one: AskedSet, places: Sequence[Place]) -> list[Answered]:
        """Of one batch. Each answer is a request of its own, so that its seed is its own too."""
        began = time.monotonic()
        seeds = [seed_of(self.seed, one.base, one.asked[row].problem, child) for row, child in places]
        drawn = self.sampler.sample([one.prompts[row] for row, _ in places], 1, seeds, one.decoding)
        completions = [completion for (completion,) in drawn]
        texts = self.tokenizer.batch_decode(
            [completion.tokens for completion in completions],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        questions = [one.questions[row] for row, _ in places]
        items = [Item(asked.text, asked.gold, text) for asked, text in zip(questions, texts, strict=True)]
        keys = [(one.name, one.asked[row].problem, child) for row, child in places]
        grades = judged(items, keys, self.graders[one.name])
        seconds = (time.monotonic() - began) / len(places)
        drawn = zip(places, seeds, texts, completions, strict=True)
        return [
            answered(one, *each, {name: said[i] for name, said in grades.items()}, seconds)
            for i, each in enumerate(drawn)
        ]


def answered(
    one: AskedSet, place: Place, seed: int, text: str, written: Completion, grades: Mapping[str, Grade], seconds: float
) -> Answered:
    """A completion with its grades, as it is kept; what was extracted is the first grader's."""
    row, child = place
    verdicts = {name: grade.right for name, grade in grades.items()}
    statuses = {name: grade.status for name, grade in grades.items()}
    extracted = next(iter(grades.values())).extracted
    return Answered(
        one.name, one.asked[row].problem, child, seed, text, len(written.tokens), written.finish, extracted, verdicts,
        statuses, round(seconds, 6),
    )  # fmt: skip


def parts(places: Sequence[Place], size: int) -> Iterator[Sequence[Place]]:
    """Places in runs of at most `size`, in their order."""
    return (places[first : first + size] for first in range(0, len(places), size))
