"""Problems to judged completions: encode, sample, verify, collate."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from isentropic.batch import RolloutBatch
from isentropic.phases import doing
from isentropic.reward import Answer
from isentropic.rollout.collate import collate
from isentropic.rollout.prompts import PromptEncoder
from isentropic.sampler import Decoding, Sampler
from isentropic.task import Problem, Task

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
    seed: int

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
        prompts = [self.prompts.encode(problem) for problem in problems]
        seeds = [self.seed_of(draw, group, apart or count) for group in groups]
        with doing("sampling"):
            answers = self.sampler.sample(prompts, count, seeds, decoding)
        completions = [completion for group in answers for completion in group]
        texts = self.prompts.tokenizer.batch_decode(
            [completion.tokens for completion in completions],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        asked, ids = repeat(problems, count), repeat(groups, count)
        with doing("verification"):
            verdicts = self.task.verify(asked, texts)
        numbers = [problem.id for problem in asked]
        batch = collate(repeat(prompts, count), completions, verdicts, ids, numbers)
        rows = zip(asked, texts, completions, verdicts, ids, strict=True)
        answers = [
            Answer(problem, text, one.tokens, one.finish, group, row % count, verdict, self.prompts.messages(problem))
            for row, (problem, text, one, verdict, group) in enumerate(rows)
        ]
        return Generated(batch, answers)

    def seed_of(self, draw: str, group: int, apart: int) -> int:
        """That of a group's first completion; the engine draws the i-th with seed + i."""
        digest = blake2b(f"{self.seed}/{draw}".encode(), digest_size=4).digest()
        return int.from_bytes(digest) + group * apart


def repeat(values: Sequence[T], count: int) -> list[T]:
    return [value for value in values for _ in range(count)]
