"""A run in miniature: one training step is one rollout of two groups, learnt from in two optimizer steps."""

import multiprocessing
import sys
import traceback
from pathlib import Path

import pytest
import torch
from fixtures.models import saving
from lightning import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger

from isentropic.algorithm.advantage.grpo import Grpo
from isentropic.algorithm.aggregation.token_mean import TokenMean
from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.clipping.fixed import Fixed
from isentropic.algorithm.control.constant import Constant
from isentropic.algorithm.ratio.token import TokenRatio
from isentropic.batch import Credit, Drive, RolloutBatch, ScoredBatch, TokenStats
from isentropic.policy.checkpoint_files import CheckpointFiles
from isentropic.policy.log_row import RolloutTrace
from isentropic.policy.module import PolicyModule
from isentropic.policy.timing import Clock
from isentropic.rollout.datamodule import RolloutDataModule


class Letters:
    def decode(self, tokens):
        return "".join(chr(ord("a") + token) for token in tokens)


def rollout(step):
    tokens = torch.tensor([[0, 1, 2, 3, 0], [0, 1, 4, 5, 6], [7, 8, 9, 0, 0], [7, 8, 9, 10, 0]])
    mask = torch.tensor([[0, 0, 1, 1, 0], [0, 0, 1, 1, 1], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0]]).bool()
    group = torch.tensor([0, 0, 1, 1]) + 2 * step
    reward = torch.tensor([1.0, 0, 0, 0])
    return RolloutBatch(tokens, mask, group, reward, reward > 0, torch.tensor([0, 1, 0, 0]).bool(), mask * -0.5)


class Stream:
    """Sized and with a position, as the real one."""

    def __init__(self, steps):
        self.steps, self.step = steps, 0

    def __len__(self):
        return self.steps

    def __iter__(self):
        while self.step < self.steps:
            self.step += 1
            yield rollout(self.step - 1)

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


class Problems:
    def __len__(self):
        return 1

    def __iter__(self):
        yield rollout(0)


class Rollouts(RolloutDataModule):
    """Without what asks a sampler."""

    report = {"rollout/tokens": 10.0}  # noqa: RUF012  # two were dropped before they could be learnt from

    def __init__(self, steps):
        LightningDataModule.__init__(self)
        self.stream, self.tokenizer = Stream(steps), Letters()

    def setup(self, stage):
        pass

    def teardown(self, stage):
        pass

    def train_dataloader(self):
        return self.stream

    def val_dataloader(self):
        return Problems()


class Tiny(PolicyModule):
    """Four numbers in place of a language model."""

    def __init__(self, logged=None, during=None):
        LightningModule.__init__(self)
        self.automatic_optimization = False
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.logged, self.during = logged or (lambda step: {}), during or (lambda module: None)
        self.learn = [slice(0, 2), slice(2, 4)]  # rows of each optimizer step
        self.rollouts, self.last_rollout, self.last_row, self.groups = 0, None, {}, []
        self.updates, self.clock = len(self.learn), Clock()
        self.algorithm = Algorithm(
            control=Constant(up=0.0, down=0.0), advantage=Grpo(divide_by_std=True), credit={}, ratio=TokenRatio(),
            clipping=Fixed(low=0.2, high=0.28, ceiling=10.0), penalty={}, aggregation=TokenMean(), scope="step",
        )  # fmt: skip

    def configure_model(self):
        self.trainer.strategy.checkpoint_io = CheckpointFiles(optimizer=True)

    def on_train_start(self):
        pass

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)

    def training_step(self, batch, batch_idx):
        entropy, none = batch.mask * 0.3, batch.mask * torch.nan
        scored = ScoredBatch(
            **vars(batch), old_logp=batch.mask * -0.25, old_entropy=entropy, old_sensitivity=entropy, ref_logp=none
        )
        self.groups.append(int(batch.group[0]))
        for rows in self.learn:
            self.manual_backward((self.weight * (batch.group[0] + 1)).square().sum())
            self.optimizers().step()
            self.optimizers().zero_grad()
            part = scored[rows]
            praise = part.mask * part.reward[:, None]
            credit = Credit.initial(praise, part.mask).drop(part.tokens == 3)
            now = TokenStats(part.mask * -0.2, part.old_entropy, part.old_sensitivity)
            self.last_rollout = RolloutTrace(
                part, credit, now, praise, Drive(), {"threes": part.mask & (part.tokens == 3)}
            )
            self.during(self)
        self.rollouts += 1
        self.last_row = {"rollout/reward": 0.25, "entropy/mean": 0.3 / self.rollouts} | self.logged(self.rollouts)
        self.log_dict(self.last_row)
        self.log("step", float(self.rollouts))

    def validation_step(self, batch, batch_idx):
        value = 0.1 * (1 + self.rollouts)
        self.log_dict({"eval/avg@8": value, "eval/avg@8_low": value - 0.05, "eval/avg@8_high": value + 0.05})
        self.log("step", float(self.rollouts))

    def on_validation_epoch_end(self):
        pass

    def on_save_checkpoint(self, checkpoint):
        checkpoint["rollouts"] = self.rollouts

    def on_load_checkpoint(self, checkpoint):
        self.rollouts = checkpoint["rollouts"]


def train(folder: Path, callbacks, steps=4, module=None, ckpt_path=None, before=False, **settings):
    """A whole run; `before` evaluates once before training too."""
    module, data = module or Tiny(), Rollouts(steps)
    settings = {"devices": 1, "limit_val_batches": 0, "enable_checkpointing": False} | settings
    trainer = Trainer(
        default_root_dir=folder, accelerator="cpu", max_epochs=1, log_every_n_steps=1, callbacks=callbacks,
        logger=CSVLogger(folder, name="", version=""), enable_model_summary=False, num_sanity_val_steps=0,
        enable_progress_bar=any("Progress" in type(c).__name__ for c in callbacks), **settings,
    )  # fmt: skip
    if before:
        trainer.validate(module, data, verbose=False)
    trainer.fit(module, data, ckpt_path=ckpt_path)
    return module


@pytest.fixture
def run(tmp_path):
    return lambda callbacks, **settings: train(tmp_path, callbacks, **settings)


@pytest.fixture
def tiny():
    return Tiny


@pytest.fixture
def ending(run, tiny, tmp_path):
    """How a process ends, exit code and last words, in which something happens in the middle of the fifth rollout."""

    def child(deed, further, settings):
        once = iter([deed])
        with (tmp_path / "stderr").open("w") as sys.stderr:
            try:
                module = tiny(during=lambda module: next(once, int)() if module.rollouts == 4 else None)
                run(
                    [*further, saving(3)],
                    steps=9,
                    module=module,
                    enable_checkpointing=True,
                    **settings,
                )
            except Exception as error:
                print(*traceback.format_exception_only(error), file=sys.stderr)
                sys.exit(1)

    def end(deed, further=(), **settings):
        process = multiprocessing.get_context("fork").Process(target=child, args=(deed, further, settings))
        process.start()
        process.join()
        return process.exitcode, (tmp_path / "stderr").read_text().strip()

    return end
