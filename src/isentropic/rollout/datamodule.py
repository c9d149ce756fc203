"""RolloutDataModule: a stream to learn from, problems to be judged on."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from sys import maxsize
from typing import Any

from lightning import LightningDataModule
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from isentropic.distributed import world_size
from isentropic.reward.correct import Correct
from isentropic.reward.total import Rewards
from isentropic.rollout.checks import check_decoding, check_group, check_numbers, check_partial, check_rewards, stopped
from isentropic.rollout.curation import Curator
from isentropic.rollout.generate import RolloutGenerator
from isentropic.rollout.prompts import PromptEncoder, examples_of, template_of
from isentropic.rollout.repeat import unrepeatable
from isentropic.rollout.sampling import ProblemSampler
from isentropic.rollout.stream import EvaluationStream, RolloutStream
from isentropic.rollout.turns import Turns
from isentropic.sampler import Decoding, Sampler
from isentropic.sampler.ends import ends_by
from isentropic.task import Problem, Split, Task
from isentropic.task.answers import BOXED
from isentropic.task.audit import FEW_PROBLEMS, short
from isentropic.task.math_task import MathTask

READ = 256  # prompts of a split that are measured before the run; the sampler refuses what slips through


@dataclass(frozen=True)
class EvaluationSettings:
    """What the policy is judged on: of each set of a split the first `problems`, `count` completions each.

    Settings are chosen by the validation split; the test split tells how good the chosen ones are. Raises ValueError
    for another split and for numbers below 1.
    """

    split: Split
    problems: int | None  # None is all
    count: int
    batch: int  # problems given to the sampler at one time, on one rank
    decoding: Decoding
    seed: int = 0  # of the draws, which do not follow the run's seed: equal policies score the same

    def __post_init__(self) -> None:
        if self.split not in ("validation", "test"):
            raise ValueError(f"evaluation.split={self.split} must be validation or test")
        if min(1 if self.problems is None else self.problems, self.count, self.batch) < 1:
            raise ValueError(
                f"evaluation.problems={self.problems}, count={self.count} and batch={self.batch} must be at least 1"
            )
        if self.decoding.greedy and self.count > 1:
            raise ValueError(
                f"evaluation.count={self.count} completions at temperature=0 would all be the same; take count=1"
            )


class RolloutDataModule(LightningDataModule):
    """Raises ValueError where sizes do not divide, or decoding would part sampler and policy."""

    def __init__(
        self,
        task: Task,
        sampler: Sampler,
        reward: Rewards,
        curation: dict[str, Curator],
        sampling: ProblemSampler,
        decoding: Decoding,
        evaluation: EvaluationSettings,
        tokenizer: str,  # folder or hub name
        chat: bool,
        system: str | None,  # message before each problem of a chat
        chat_template: str | None,  # in place of the tokenizer's: its text, or a file
        template_arguments: dict[str, Any] | None,
        examples: str | list[dict[str, str]] | None,  # messages before each problem of a chat, or a file of them
        steps: int,
        batch_size: int,  # completions of a rollout, over all ranks
        group_size: int,  # completions of one prompt
        max_tries: int,
        problems: int | None,  # only the first so many of the train split, again and again; None is all
        one_step_off_policy: bool,  # each rollout is sampled during the update before it, by the policy before that
        seed: int,
        turns: Turns | None = None,  # budgets of an environment's episodes
        partial: bool = False,  # answers go on after the weights change, so that none is waited for with idle slots
        max_staleness: int = 1,  # updates between the drawing of a token and learning from it, with partial
        stale_cache: bool = False,  # with partial: what goes on keeps keys and values that older weights computed
    ) -> None:
        super().__init__()
        check_group(batch_size, group_size)
        check_decoding(decoding)
        decoding = stopped(task, decoding, "rollout.decoding")
        evaluation = replace(evaluation, decoding=stopped(task, evaluation.decoding, "rollout.evaluation.decoding"))
        check_rewards(reward, curation)
        if partial:
            check_partial(task, sampling, max_staleness)
        elif stale_cache:
            raise ValueError("rollout.stale_cache=true is of answers that go on; take rollout.partial=true with it")
        check_numbers(task, steps, max_tries, problems)
        self.task, self.sampler, self.decoding = task, sampler, decoding
        self.reward, self.curation, self.sampling = reward, curation, sampling
        self.steps, self.batch_size, self.group_size = steps, batch_size, group_size
        self.max_tries, self.seed = max_tries, seed
        self.evaluation, self.first, self.one_step_off_policy = evaluation, problems, one_step_off_policy
        self.partial, self.max_staleness, self.stale_cache = partial, max_staleness, stale_cache
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(tokenizer)
        if template := template_of(chat_template):
            self.tokenizer.chat_template = template
        self.prompts = PromptEncoder(self.tokenizer, chat, system, examples_of(examples), template_arguments or {})
        self.generator = RolloutGenerator(task, sampler, self.prompts, seed, turns)
        self.stream: RolloutStream | None = None

    def setup(self, stage: str) -> None:
        self.check_ranks(world_size())

    def check_ranks(self, ranks: int) -> None:
        """Raises ValueError where so many ranks cannot share the work."""
        prompts = self.batch_size // self.group_size
        if prompts % ranks:
            raise ValueError(
                f"rollout.batch_size={self.batch_size} and rollout.group_size={self.group_size} make {prompts} groups, "
                f"which {ranks} ranks cannot share equally; take a size that is a multiple of {ranks * self.group_size}"
            )

    def train_dataloader(self) -> RolloutStream:
        """The same stream however often Lightning asks for it, as it does when it resumes."""
        if self.stream is None:
            self.stream = RolloutStream(
                self.generator, self.problems_of("train"), self.reward, self.curation, self.sampling, self.decoding,
                self.steps, self.batch_size // self.group_size, self.group_size, self.max_tries, self.seed,
                self.one_step_off_policy, self.max_staleness if self.partial else None, self.stale_cache,
            )  # fmt: skip
        return self.stream

    def val_dataloader(self) -> EvaluationStream:
        j = self.evaluation
        generator = replace(self.generator, seed=j.seed)
        places = [place for part in self.evaluated().values() for place in part]
        return EvaluationStream(generator, self.problems_of(j.split), j.decoding, j.count, places, j.batch)

    def evaluated(self) -> dict[str, range]:
        """Places in the split of the problems to be judged on, by set: math500, or math500[128] where it has more.

        One set without a name of its own is "" where all of it is asked, or where it is endless. Raises ValueError for
        all of an endless one.
        """
        split, number = self.evaluation.split, self.evaluation.problems
        whole = len(self.problems_of(split))
        if number is None and whole == maxsize:
            raise ValueError(
                "rollout.evaluation.problems=null is all, and the task makes problems without end; say how many"
            )
        sets = self.task.sets(split) or {"" if whole in (maxsize, number) or number is None else split: whole}
        found: dict[str, range] = {}
        first = 0
        for name, size in sets.items():
            asked = size if number is None else min(number, size)
            found[name if asked == size or not name else f"{name}[{asked}]"] = range(first, first + asked)
            first += size
        return found

    def teardown(self, stage: str) -> None:
        self.reward.close()

    @property
    def most_stale(self) -> int:
        """Updates that a token may be old when it is learnt from; 0 on-policy."""
        return self.max_staleness if self.partial else int(self.one_step_off_policy)

    def wait_for_pending(self) -> None:
        """To be called before the sampler takes other weights."""
        if self.stream:
            self.stream.wait_for_pending()

    def problems_of(self, split: Split) -> Sequence[Problem]:
        """All of a split; of train no more than rollout.problems says."""
        problems = self.task.problems(split)
        return problems[: self.first] if split == "train" and self.first is not None else problems

    def example(self) -> str:
        """One prompt as the policy reads it, and, once there is one, its first answer."""
        answer = self.stream.example if self.stream else None
        problem = answer.problem if answer else self.problems_of("train")[0]
        count = len(self.prompts.encode(problem))
        parts = [(f"a prompt, as the policy reads it: {count} tokens", self.prompts.shown(problem))]
        if answer:
            written = self.tokenizer.decode(list(answer.tokens), skip_special_tokens=False)
            parts += [
                (f"its first answer, as it was written: {len(answer.tokens)} tokens", str(written)),
                (f"as it is judged: {answer.verdict.status}, {answer.verdict.reward:g}", answer.text),
            ]
        return "".join(f"--- {title} ---\n{text}\n" for title, text in parts)

    def unrepeatable(self) -> str | None:
        """A sentence, where the world of the first answer does not say the same to the same turns."""
        answer, player = self.stream.example if self.stream else None, self.generator.player
        if answer is None or answer.played is None or player is None:
            return None
        return unrepeatable(player.task, player.turns, answer.problem, answer.played.texts)

    @property
    def report(self) -> dict[str, float]:
        """What the stream saw while it made the last rollout."""
        return self.stream.report if self.stream else {}

    def check_problems(self) -> None:
        """Raises ValueError for what cannot be asked or judged, or would be lost on the way."""
        if not self.task.verifies and any(isinstance(one, Correct) for one in self.reward.parts.values()):
            raise ValueError("task.answer=null has nothing to check for reward=[correct]; take reward=[trl] or [verl]")
        for split in dict.fromkeys(("train", self.evaluation.split)):
            problems = self.problems_of(split)
            for problem in problems[: READ if len(problems) < maxsize else 1]:
                self.prompts.check(problem)
        if self.generator.player:
            self.generator.player.framing.check()
        for decoding in (self.decoding, self.evaluation.decoding):
            if decoding.stop is not None:
                ends_by(self.tokenizer, decoding.stop)
        self.sampling.check(self.problems_of("train"))
        self.reward.check(self.problems_of("train")[0])
        self.prompts.check_written("task.marker", self.task.markers())
        self.prompts.check_written(
            "the task", [BOXED] if isinstance(self.task, MathTask) and self.task.verifies else []
        )
        for name, reward in self.reward.parts.items():
            self.prompts.check_written(f"reward.{name}", reward.markers())

    def easy_reward(self) -> str | None:
        """A sentence where a constant answer earns much; `isentropic audit-task` looks more closely."""
        problems = self.problems_of("train")
        return short(self.task, [problems[i] for i in range(min(len(problems), FEW_PROBLEMS))])

    def check_context(self, context: int) -> None:
        """Raises ValueError if a prompt leaves no room for its answer: of few problems the longest, else the first."""
        evaluation = self.evaluation
        splits: tuple[tuple[Split, Decoding], ...] = ("train", self.decoding), (evaluation.split, evaluation.decoding)
        for split, decoding in splits:
            problems = self.problems_of(split)
            read = problems[:READ] if len(problems) == maxsize else problems
            suspects = heapq.nlargest(READ, read, key=lambda problem: len(problem.prompt))
            longest = max(len(self.prompts.encode(problem)) for problem in suspects)
            observed = self.generator.player.turns.observed_at_most if self.generator.player else 0
            needed = longest + decoding.max_tokens + observed
            if needed > context:
                read = f" and {observed} of observations (rollout.turns)" if observed else ""
                raise ValueError(
                    f"a {split} prompt has {longest} tokens; with max_tokens={decoding.max_tokens}{read} it does not "
                    f"fit sampler.max_model_len={context}; raise that to {needed}"
                )
