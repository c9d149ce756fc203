"""RolloutDataModule: a stream to learn from, problems to be judged on."""

from collections.abc import Sequence
from dataclasses import dataclass

from lightning import LightningDataModule
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from isentropic.rollout.ask import Asker
from isentropic.rollout.curation import Curator
from isentropic.rollout.stream import EvaluationStream, RolloutStream
from isentropic.sampler import Decoding, Sampler
from isentropic.task import Problem, Split, Task
from isentropic.tensors import world_size


@dataclass(frozen=True)
class Judging:
    """What the policy is judged on: the first `problems` of the test split, `count` completions each."""

    problems: int
    count: int
    batch: int  # problems given to the sampler at one time, on one rank
    decoding: Decoding

    def __post_init__(self) -> None:
        if min(self.problems, self.count, self.batch) < 1:
            raise ValueError(f"problems={self.problems}, count={self.count} and batch={self.batch} must be at least 1")


class RolloutDataModule(LightningDataModule):
    """Raises ValueError where sizes do not divide, or decoding would part sampler and policy."""

    def __init__(
        self,
        task: Task,
        sampler: Sampler,
        curation: dict[str, Curator],
        decoding: Decoding,
        judging: Judging,
        tokenizer: str,  # folder or hub name
        chat: bool,
        steps: int,
        size: int,  # completions of a rollout, over all ranks
        group: int,  # completions of one prompt
        max_tries: int,
        seed: int,
    ) -> None:
        super().__init__()
        check_group(size, group)
        check_decoding(decoding)
        if steps < 1 or max_tries < 1:
            raise ValueError(f"steps={steps} and max_tries={max_tries} must be at least 1")
        self.task, self.sampler, self.curation, self.decoding = task, sampler, curation, decoding
        self.steps, self.size, self.group, self.max_tries, self.seed = steps, size, group, max_tries, seed
        self.judging = judging
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(tokenizer)
        self.ask = Asker(task, sampler, self.tokenizer, chat, seed)
        self.stream: RolloutStream | None = None

    def train_dataloader(self) -> RolloutStream:
        prompts = self.size // self.group
        if prompts % world_size():
            raise ValueError(f"size={self.size} makes {prompts} groups, which {world_size()} ranks cannot share equally")
        self.stream = self.stream or RolloutStream(
            self.ask, self.problems("train"), self.curation, self.decoding,
            self.steps, prompts, self.group, self.max_tries, self.seed,
        )
        return self.stream

    def val_dataloader(self) -> EvaluationStream:
        j = self.judging
        return EvaluationStream(self.ask, self.problems("test"), j.decoding, j.count, j.problems, j.batch)

    def problems(self, split: Split) -> Sequence[Problem]:
        return self.task.problems(split)

    @property
    def report(self) -> dict[str, float]:
        """What the stream saw while it made the last rollout."""
        return self.stream.report if self.stream else {}

    def check_context(self, context: int) -> None:
        """Raises ValueError if one of the first prompts of either split leaves no room for its answer."""
        for split, decoding in (("train", self.decoding), ("test", self.judging.decoding)):
            problems = self.problems(split)
            longest = max((len(self.ask.encode(problems[i].prompt)) for i in range(min(len(problems), 256))), default=0)
            if longest + decoding.max_tokens > context:
                raise ValueError(
                    f"a {split} prompt has {longest} tokens; with max_tokens={decoding.max_tokens} "
                    f"it does not fit max_model_len={context}; raise that to {longest + decoding.max_tokens}"
                )


def check_group(size: int, group: int) -> None:
    if group < 1 or size % group:
        lower = size // max(group, 1) * group
        fit = f"the nearest that fit are {lower} and {lower + group}" if lower else f"the smallest that fits is {group}"
        raise ValueError(f"rollout.size={size} is not a multiple of rollout.group={group}; {fit}")


def check_decoding(decoding: Decoding) -> None:
    """The policy's log-probs are over the whole vocabulary; log(kept mass) would leak into every importance ratio."""
    for name, off in (("top_p", 1), ("top_k", 0), ("min_p", 0)):
        if getattr(decoding, name) != off:
            raise ValueError(
                f"rollout.decoding.{name}={getattr(decoding, name)} truncates sampling, and the importance ratio is of the "
                f"whole distribution; train with {name}={off} (rollout.judging.decoding.{name} is free)"
            )
