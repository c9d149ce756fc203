"""A tiny base model from nothing: supervised training on worked answers, written as a Hugging Face folder.

isentropic pretrain out=logs/base steps=1200 seed=1000
"""
# transformers, tokenizers and torch's optimizers do not declare all their types
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import hydra
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar

from isentropic.config.own import CONFIGS
from isentropic.config.refused import refuse
from isentropic.task import Problem
from isentropic.task.calculator import asking
from isentropic.task.countdown import Countdown

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
IGNORED = -100  # the label that transformers leaves out of the loss


@dataclass(frozen=True)
class Pretraining:
    """Settings of one run. Raises ValueError for a task without worked answers and for a folder that is in use."""

    task: Countdown
    seed: int
    out: str
    threads: int
    alphabet: str
    asked: float  # share of the results that answers ask for by =?, for task.optional of task=calculator
    model: dict[str, Any]  # fields of Qwen3Config
    steps: int
    batch: int
    lr: float
    warmup: int
    last_lr: float
    beta1: float
    beta2: float
    weight_decay: float
    clip: float

    def __post_init__(self) -> None:
        if not isinstance(self.task, Countdown):  # pyright: ignore[reportUnnecessaryIsInstance]  # a config decides
            raise ValueError(f"task={type(self.task).__name__} has no worked answers to learn from; task=countdown has")
        if not 0 <= self.asked <= 1:
            raise ValueError(f"asked={self.asked} is no share; it must lie between 0 and 1")
        if self.asked and "?" not in self.alphabet:
            raise ValueError(f"asked={self.asked} writes ?, which alphabet={self.alphabet!r} does not have; add it")
        for name in ("steps", "batch", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} trains nothing; it must be at least 1")
        if Path(self.out).exists() and (not Path(self.out).is_dir() or any(Path(self.out).iterdir())):
            raise ValueError(f"out={self.out} exists already; name a new or an empty folder")

    def run(self) -> float:
        """Trains and writes the model; returns the last loss in nats per token."""
        torch.set_num_threads(self.threads)
        torch.manual_seed(self.seed)
        tokenizer = character_tokenizer(self.alphabet, self.model["vocab_size"], self.model["max_position_embeddings"])
        ends: dict[str, Any] = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        policy = Qwen3ForCausalLM(Qwen3Config(**self.model, **ends, bos_token_id=None, dtype="float32"))
        policy.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, **ends)
        loss = self.fit(policy, tokenizer)
        policy.save_pretrained(self.out)
        tokenizer.save_pretrained(self.out)
        return loss

    def fit(self, policy: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> float:
        optimizer = torch.optim.AdamW(
            policy.parameters(), lr=self.lr, betas=(self.beta1, self.beta2), weight_decay=self.weight_decay
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.share)
        loss = torch.tensor(math.nan)
        with progress() as bar:
            shown = bar.add_task("pretraining", total=self.steps, loss=math.nan)
            for step in range(self.steps):
                first = step * self.batch
                worked = [self.worked(index) for index in range(first, first + self.batch)]
                tokens, labels = batch_of(worked, tokenizer)
                loss = policy(input_ids=tokens, labels=labels, use_cache=False).loss
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(policy.parameters(), self.clip)
                optimizer.step()
                schedule.step()
                bar.update(shown, advance=1, loss=loss.item())
        return loss.item()

    def worked(self, index: int) -> tuple[Problem, str]:
        """A problem with an answer, some of whose results are asked for."""
        problem, answer = self.task.worked("train", index)
        return problem, asking(answer, self.asked, Random(f"{self.seed}/{index}")) if self.asked else answer

    def share(self, step: int) -> float:
        """Of the learning rate: linear warm-up, then a cosine down to `last_lr`."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.last_lr + (1 - self.last_lr) * (1 + math.cos(math.pi * done)) / 2


def character_tokenizer(alphabet: str, size: int, longest: int) -> PreTrainedTokenizerFast:
    """One token per character: 0 pads, 1 ends, then the alphabet, one for all other characters, and unused ones."""
    names = [PAD, EOS, *alphabet, UNKNOWN]
    if len(names) > size:
        raise ValueError(f"model.vocab_size={size} is too small for this alphabet; it must be at least {len(names)}")
    names += [f"<unused{i}>" for i in range(size - len(names))]
    vocabulary = {name: index for index, name in enumerate(names)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    # UNKNOWN is not declared as special, so that decoding an answer never hides it from the verifier.
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=EOS,
        padding_side="left",
        model_max_length=longest,
        clean_up_tokenization_spaces=False,
    )


def batch_of(worked: Sequence[tuple[Problem, str]], tokenizer: PreTrainedTokenizerFast) -> tuple[Tensor, Tensor]:
    """Tokens, and labels on the answers and their ends only; both padded on the right."""
    prompts: list[list[int]] = tokenizer([problem.prompt for problem, _ in worked])["input_ids"]  # pyright: ignore
    answers: list[list[int]] = tokenizer([answer + EOS for _, answer in worked])["input_ids"]  # pyright: ignore
    rows = list(zip(prompts, answers, strict=True))
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    tokens = torch.zeros((len(rows), width), dtype=torch.long)
    labels = torch.full_like(tokens, IGNORED)
    for row, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        tokens[row, :end] = torch.tensor(prompt + answer)
        labels[row, len(prompt) : end] = torch.tensor(answer)
    return tokens, labels


def progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="pretrain")
def main(config: DictConfig) -> None:
    start = time.monotonic()
    disable_progress_bar()  # of transformers, when it saves
    try:
        pretraining: Pretraining = instantiate(config)
    except InstantiationException as error:
        refuse(error.__cause__ or error)
    loss = pretraining.run()
    print(f"Wrote {pretraining.out} after {time.monotonic() - start:.0f} s; last loss {loss:.3f} nats per token.")


if __name__ == "__main__":
    main()
