"""Problems to judged completions: encode, sample, verify, collate."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from transformers import PreTrainedTokenizerBase

from isentropic.rollout.collate import collate
from isentropic.sampler import Decoding, Sampler
from isentropic.task import Problem, Task
from isentropic.types import RolloutBatch


@dataclass(frozen=True)
class Asker:
    """Raises ValueError where a chat template is asked for and the tokenizer has none."""

    task: Task
    sampler: Sampler
    tokenizer: PreTrainedTokenizerBase
    chat: bool  # wrap each prompt as a user's message
    seed: int
    statuses: Counter[str] = field(default_factory=Counter)  # why answers failed, since it was last cleared

    def __post_init__(self) -> None:
        if self.chat and not self.tokenizer.chat_template:
            raise ValueError(f"chat=true, but the tokenizer of {self.tokenizer.name_or_path} has no chat template; take chat=false")

    def encode(self, prompt: str) -> list[int]:
        if self.chat:
            messages = [{"role": "user", "content": prompt}]
            return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return self.tokenizer.encode(prompt)

    def __call__(
        self, problems: Sequence[Problem], groups: Sequence[int], count: int, decoding: Decoding, draw: str
    ) -> RolloutBatch:
        """`count` completions of each problem; `draw` names the occasion, and with the group fixes the seeds."""
        prompts = [self.encode(p.prompt) for p in problems]
        seeds = [self.seed_of(draw, group, count) for group in groups]
        answers = self.sampler.sample(prompts, count, seeds, decoding)
        flat = [c for group in answers for c in group]
        texts = self.tokenizer.batch_decode([c.tokens for c in flat], skip_special_tokens=True)
        verdicts = self.task.verify([p for p in problems for _ in range(count)], texts)
        self.statuses.update(v.status for v in verdicts)
        repeated = [[x for x in xs for _ in range(count)] for xs in (prompts, groups)]
        return collate(repeated[0], flat, verdicts, repeated[1])

    def seed_of(self, draw: str, group: int, count: int) -> int:
        """Spaced by `count`, since the engine draws child i with seed + i; the same whatever the number of ranks."""
        digest = blake2b(f"{self.seed}/{draw}/{group}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest) & 0x7FFFFFFF) // count * count
