"""Rollouts without a sampler, and one training run over them."""

from dataclasses import replace

import pytest
import torch


class Rollouts:
    """Sized, as the stream is."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


@pytest.fixture
def rollout():
    """8 completions of 2 prompts, of 3 to 10 tokens, rewards of both kinds in each group."""
    from isentropic.batch import RolloutBatch

    torch.manual_seed(3)
    lengths = torch.tensor([3, 10, 5, 7, 4, 9, 6, 8])
    width = 15
    column = torch.arange(width)
    mask = (column >= 5) & (column < 5 + lengths[:, None])
    tokens = torch.where(column < 5 + lengths[:, None], torch.randint(2, 20, (8, width)), 0)
    reward = torch.tensor([1.0, 0, 0, 1, 0, 0, 0, 1])
    group = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    nothing = torch.zeros(8, dtype=torch.bool)
    return RolloutBatch(tokens, mask, group, reward, reward > 0, nothing, torch.full((8, width), torch.nan))


@pytest.fixture
def wider():
    def pad(batch, columns):
        """The same rollout with garbage behind it."""
        grow = lambda x, value: torch.nn.functional.pad(x, (0, columns), value=value)  # noqa: E731
        return replace(
            batch,
            tokens=grow(batch.tokens, 7),
            mask=grow(batch.mask, False),
            sampler_logp=grow(batch.sampler_logp, 99.0),
            turn=grow(batch.turn, 9),
            staleness=grow(batch.staleness, 9),
        )

    return pad


@pytest.fixture
def policy(tiny_model):
    from torchmetrics import MetricCollection

    from isentropic.algorithm.advantage.grpo import Grpo
    from isentropic.algorithm.aggregation.token_mean import TokenMean
    from isentropic.algorithm.algorithm import Algorithm
    from isentropic.algorithm.clipping.fixed import Fixed
    from isentropic.algorithm.control.gate import Gate
    from isentropic.algorithm.credit.stare import Stare
    from isentropic.algorithm.ratio.token import TokenRatio
    from isentropic.policy.model.language_model import ModelSettings
    from isentropic.policy.module import PolicyModule
    from isentropic.policy.optimization import Optimization
    from isentropic.policy.schedule import Constant

    def make(
        model=tiny_model,
        temperature=1.0,
        reference=None,
        skip_old_logp_forward=True,
        adapter=None,
        schedule=None,
        early_logp="policy",
        **settings,
    ):
        algorithm = Algorithm(
            control=Gate(target=9.0, step=0.0, ceiling=5.0),
            advantage=Grpo(divide_by_std=True),
            credit={"stare": Stare(top=0.2, boost=2.0, damp=0.9, good_rest=1.0, bad_rest=1.0)},
            ratio=TokenRatio(),
            clipping=Fixed(low=0.2, high=0.28, ceiling=10.0),
            penalty={},
            aggregation=TokenMean(),
            scope="step",
        )
        defaults = {
            "lr": 1e-2,
            "weight_decay": 0.01,
            "beta1": 0.9,
            "beta2": 0.999,
            "warmup_steps": 0,
            "warmup_ratio": 0.0,
        }
        sizes = {
            "max_grad_norm": 1.0,
            "mini_batch": 8,
            "micro_batch": 8,
            "max_tokens_per_micro_batch": None,
            "max_tokens_no_grad": None,
        }
        sizes |= {"sharded_gradients": False, "reshard_after_forward": False, "balance": True}
        optimization = Optimization(**(defaults | sizes | settings))
        module = PolicyModule(
            algorithm, MetricCollection([]), ModelSettings(model, "float32", 16, False, "none", False),
            reference, optimization, schedule or Constant(),
            batch_size=8, temperature=temperature, recompute_logp=True,
            skip_old_logp_forward=skip_old_logp_forward, seed=0, adapter=adapter, early_logp=early_logp,
        )  # fmt: skip
        return module

    return make


@pytest.fixture
def fit(tmp_path):
    from lightning import Trainer

    def run(module, batches, **settings):
        trainer = Trainer(
            accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path, **settings,
        )  # fmt: skip
        trainer.fit(module, Rollouts(batches))
        return {name: float(value) for name, value in trainer.callback_metrics.items()}

    return run
