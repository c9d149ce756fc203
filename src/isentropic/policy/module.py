"""PolicyModule: old log-probs, advantages, credit, loss, optimizer step. One training_step is one rollout batch."""

import math
from collections.abc import Iterator
from typing import Any, cast

import torch
from lightning import LightningModule
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import MetricCollection

from isentropic.algorithm import diagnostics
from isentropic.algorithm.algorithm import Algorithm
from isentropic.batch import Drive, Metrics, PerToken, RolloutBatch, ScoredBatch, TokenStats, Vitals
from isentropic.phases import doing
from isentropic.policy.batching.balance import balanced
from isentropic.policy.batching.micro_batches import MicroBatch, concat, dummy_row, micro_batches, pack
from isentropic.policy.checkpoint_files import CheckpointFiles
from isentropic.policy.log_row import Record, RolloutTrace
from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.lora import LoraSettings
from isentropic.policy.model.reference import Reference, reference_settings
from isentropic.policy.optimization import Optimization
from isentropic.policy.schedule import Schedule
from isentropic.policy.timing import Clock, timed
from isentropic.policy.update import (
    Source,
    Update,
    UpdateResult,
    check_early_logp,
    reuses_update_forward,
    scored,
    told,
)
from isentropic.reductions import masked_mean
from isentropic.state import Memory

FIRST = 2  # rollouts after which parts are looked at, besides every checkpoint


class PolicyModule(LightningModule):
    """The policy in training. Raises ValueError where sizes do not divide."""

    def __init__(
        self,
        algorithm: Algorithm,
        evaluation: MetricCollection,
        model: ModelSettings,
        reference: str | None,  # folder or hub name of a frozen policy, for penalties that measure the distance to it
        optimization: Optimization,
        schedule: Schedule,  # of the learning rate
        batch_size: int,  # completions of a rollout, over all ranks
        temperature: float,  # of sampling, and so of every log-prob and entropy here
        recompute_logp: bool,  # credit rules of later optimizer steps see the current policy, at one more forward
        skip_old_logp_forward: bool,  # where one update is all and nothing asks before, its forward gives old_logp
        seed: int,
        adapter: LoraSettings | None,  # learns in place of the weights, which stay as they are
        early_logp: Source = "policy",  # whose log-probs parts read that need them before a rollout's only update
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        if batch_size % optimization.mini_batch:
            raise ValueError(
                f"mini_batch={optimization.mini_batch} does not divide rollout.batch_size={batch_size}; "
                "take a divisor of it"
            )
        self.algorithm, self.evaluation = algorithm, evaluation
        self.model, self.adapter = model, adapter
        self.optimization, self.schedule = optimization, schedule
        self.updates = batch_size // optimization.mini_batch  # optimizer steps per rollout
        self.temperature, self.recompute_logp, self.seed = temperature, recompute_logp, seed
        self.skip_old_logp_forward = skip_old_logp_forward
        self.early_logp: Source = check_early_logp(early_logp, skip_old_logp_forward, self.updates, algorithm)
        self.policy = cast(LanguageModel, None)  # until configure_model
        self.frozen = reference_settings(reference, model) if reference else None
        self.reference: Reference | None = None  # until configure_model, and where none is asked for
        self.rollouts = 0  # rollout batches trained on
        self.planned: int | None = None  # optimizer steps of the run whose checkpoint this goes on with
        self.settings: dict[str, Any] = {}  # of the run, by dotted key, for whoever goes on with its checkpoint
        self.changed = False  # whether the last rollout changed the weights
        self.compiles = model.compile  # with the next update, the first of this process
        self.record, self.clock = Record(), Clock()
        self.memory = Memory(
            algorithm.parts() | {"policy.schedule": schedule}, apart={"algorithm.control": algorithm.control}
        )
        self.last_rollout: RolloutTrace | None = None
        self.last_row: dict[str, float] = {}  # what was logged of it

    def configure_model(self) -> None:
        if self.policy is not None:  # pyright: ignore[reportUnnecessaryComparison]
            return
        with doing("the model's weights", once=True):
            self.optimization.check(self.trainer)
            mesh = None if self.device_mesh is None else self.device_mesh["data_parallel"]  # of FSDP2
            self.policy = LanguageModel(self.model, mesh, self.adapter)
            self.strict_loading = self.adapter is None  # a checkpoint of adapters lacks their base
            fits = self.trainer.state.fn == TrainerFn.FITTING
            self.trainer.strategy.checkpoint_io = CheckpointFiles(optimizer=fits)
            if self.frozen and self.trainer.state.fn == TrainerFn.FITTING:
                self.reference = Reference(self.frozen, mesh, self.policy)

    def configure_optimizers(self) -> Any:
        optimizer, schedule = self.optimization.build(self.policy.parameters(), self.lr_factor)
        return [optimizer], [schedule]

    def lr_factor(self, step: int) -> float:
        """Of the learning rate, at an optimizer step of this run."""
        return self.optimization.factor(step, self.steps(), self.schedule)

    def steps(self) -> int:
        """Optimizer steps of the whole run; 1 while the trainer does not know yet how many rollouts there are."""
        rollouts = self.trainer.num_training_batches
        return int(rollouts) * self.updates if math.isfinite(rollouts) else 1

    def on_train_start(self) -> None:
        """After the state of a checkpoint's optimizer has come back."""
        optimizer, schedule = cast(LightningOptimizer, self.optimizers()), cast(LambdaLR, self.lr_schedulers())
        step, steps = schedule.last_epoch, self.steps()
        factor = self.lr_factor(step)
        self.optimization.obey(optimizer.optimizer, schedule, factor)
        before = self.optimization.factor(step, self.planned or steps, self.schedule)
        if factor != before:
            rank_zero_warn(
                f"the learning rate is that of a run of {steps} optimizer steps from its start, where the checkpoint's "
                f"was of {self.planned}: it goes on at {factor * self.optimization.lr:.3g}, not at "
                f"{before * self.optimization.lr:.3g}"
            )

    def training_step(self, rollouts: RolloutBatch, batch_idx: int) -> None:
        with doing("the first update, which compiles" if self.compiles else "update", once=self.compiles):
            self.learn(rollouts)
        self.compiles = False

    def learn(self, rollouts: RolloutBatch) -> None:
        """One rollout batch: score, advantages, an update for each part of its rows, one row in the log."""
        torch.manual_seed(hash((self.seed, self.rollouts, self.global_rank)) & 0x7FFFFFFF)
        batch = self.score_rollout(balanced(rollouts, self.updates) if self.optimization.balance else rollouts)
        drive = self.algorithm.control.update(self.vitals(batch))
        advantages = self.algorithm.advantage(batch)
        self.changed = False
        results, metrics = list[UpdateResult](), list[Metrics]()
        for index, rows in enumerate(torch.arange(len(batch.tokens)).tensor_split(self.updates)):
            mini, theirs = (batch[rows], advantages[rows]) if len(rows) else (dummy_row(batch), advantages[:1])
            result = self.update(mini, theirs, drive, first=index == 0)
            metrics.append(result.metrics | self.step_optimizer())
            results += [result] if len(rows) else []
        self.rollouts += 1
        if self.rollouts <= FIRST:
            self.memory.check()
        self.last_rollout = trace_of(results, advantages, drive)
        described = diagnostics.describe(self.last_rollout.batch, advantages)
        target = vars(self.algorithm.control).get("target")
        self.last_row = self.record.row(described | ({} if target is None else {"control/target": target}), metrics)
        self.log_dict(self.last_row)
        self.log("step", float(self.rollouts))

    @timed("read")
    def score_rollout(self, rollouts: RolloutBatch) -> ScoredBatch:
        """Old log-probs and the reference's; NaN, or the sampler's, where the update's own forward gives them."""
        old = ref = unknown = torch.full_like(rollouts.sampler_logp, torch.nan)
        stats = told(rollouts) if self.early_logp == "sampler" else TokenStats(old, unknown, unknown)
        if self.reference or not self.reuse_update_forward:
            micros = self.inference_micro_batches(rollouts)
            stats = stats if self.reuse_update_forward else self.compute_old_logp(rollouts, micros)
            ref = self.reference.logp(rollouts, micros, self.temperature) if self.reference else unknown
        return scored(rollouts, stats, ref)

    @property
    def reuse_update_forward(self) -> bool:
        """Whether the update's own forward is the old policy's reading, so that none is needed before."""
        return reuses_update_forward(self.skip_old_logp_forward, self.updates, self.algorithm, self.early_logp)

    def vitals(self, batch: ScoredBatch) -> Vitals:
        """What the controller sees: mean entropy over chosen tokens of all ranks, and the share of rollouts done."""
        entropy = masked_mean(batch.old_entropy, batch.mask).item()
        return Vitals(entropy, self.rollouts / int(self.trainer.num_training_batches))

    def compute_old_logp(self, batch: RolloutBatch, micros: list[MicroBatch]) -> TokenStats:
        """A forward without a gradient over all rows; reshard_after_forward=false keeps weights whole meanwhile."""
        with self.policy.keep_gathered(enabled=not self.optimization.reshard_after_forward):
            return self.policy.batch_stats(batch, micros, self.temperature, "value")

    def micro_batches(self, batch: RolloutBatch) -> list[MicroBatch]:
        """By the optimization's limits on rows and tokens; as many on every rank, with dummies where needed."""
        limits = self.optimization.micro_batch, self.optimization.max_tokens_per_micro_batch
        return micro_batches(batch.mask, *limits, self.policy.packed, self.policy.shared_prompts(batch))

    def inference_micro_batches(self, batch: RolloutBatch) -> list[MicroBatch]:
        """For forwards without a backward pass: packs may be longer, and of any number of rows."""
        if not self.policy.packed:
            return self.micro_batches(batch)
        limit = self.optimization.max_tokens_no_grad
        return micro_batches(batch.mask, None, limit, True, self.policy.shared_prompts(batch))

    def update(self, batch: ScoredBatch, advantages: PerToken, drive: Drive, first: bool) -> UpdateResult:
        """The gradient of one optimizer step, whatever the number of micro-batches."""
        now, micros = TokenStats(batch.old_logp, batch.old_entropy, batch.old_sensitivity), self.micro_batches(batch)
        if self.recompute_logp and not first and self.algorithm.credit:
            once = len(micros) == 1 and not self.policy.packed and not self.algorithm.needs_entropy_gradient
            now = None if once else self.compute_old_logp(batch, self.inference_micro_batches(batch))
        update = Update(
            self.policy, self.algorithm, self.temperature, self.optimization.sharded_gradients,
            self.reuse_update_forward, self.manual_backward,
        )  # fmt: skip
        with self.policy.keep_gathered(enabled=not self.optimization.reshard_after_forward):
            return update(batch, advantages, now, drive, micros)

    @timed("optimizer")
    def step_optimizer(self) -> Metrics:
        """Clips and steps; a gradient that is not finite is skipped on every rank, with a warning."""
        optimizer = cast(LightningOptimizer, self.optimizers())
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.optimization.max_grad_norm)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        finite = bool(norm.isfinite())
        if finite:
            optimizer.step()
        else:
            rank_zero_warn(f"rollout {self.rollouts + 1}: the gradient norm is {norm}; this update is left out")
        self.changed |= finite and bool(norm > 0)
        optimizer.zero_grad()
        lr = optimizer.param_groups[0]["lr"]
        cast(LambdaLR, self.lr_schedulers()).step()
        return {"policy/grad_norm": norm, "policy/skipped": float(not finite), "policy/lr": lr}

    def validation_step(self, answers: RolloutBatch, batch_idx: int) -> None:
        self.evaluation.update(answers.correct, answers.group)

    def on_validation_epoch_end(self) -> None:
        scores = {name: float(value) for name, value in self.evaluation.compute().items()}
        self.evaluation.reset()
        self.log_dict({f"eval/{name}": value for name, value in scores.items()})
        self.log("step", float(self.rollouts))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.memory.check()
        checkpoint["isentropic"] = {
            "model": self.policy.shape(),
            "path": self.model.path,
            "adapter": self.adapter and self.adapter.state(self.model.path),
            "control": self.algorithm.control.state_dict(),
            "parts": self.memory.state_dict(),
            "rollouts": self.rollouts,
            "steps": self.steps(),
            "record": self.record.state_dict(),
            "settings": self.settings,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.trainer.state.fn == TrainerFn.FITTING:  # a policy can be judged under any settings
            self.algorithm.control.load_state_dict(checkpoint["isentropic"]["control"])
            self.memory.load_state_dict(checkpoint["isentropic"].get("parts", {}))
            self.record.load_state_dict(checkpoint["isentropic"].get("record", {}))
            self.planned = checkpoint["isentropic"].get("steps")
        self.rollouts = checkpoint["isentropic"]["rollouts"]

    @torch.no_grad()
    def score(self, tokens: list[int]) -> list[float]:
        """Log-probs of tokens[1:] at temperature 1, under the current weights. Collective under FSDP."""
        ids = torch.tensor([tokens], device=self.device)
        mask = torch.arange(len(tokens), device=self.device)[None] > 0
        packed = pack(mask, [len(tokens)]) if self.policy.packed else None
        scores = self.policy(ids, mask, len(tokens), 1.0, "none", packed)[0][0, 1:].tolist()
        self.policy.reshard()  # the sampler needs the memory next
        return scores

    def weights(self, dtype: str | None = None) -> Iterator[tuple[str, Tensor]]:
        """Whole weights of any shape by the model's own names, in this dtype or their own, a bucket at a time.

        All ranks call.
        """
        return self.policy.weights(dtype)


def trace_of(results: list[UpdateResult], advantages: PerToken, drive: Drive) -> RolloutTrace:
    """Optimizer steps of one rollout, joined again."""
    return RolloutTrace(
        batch=concat([result.batch for result in results]),
        credit=concat([result.credit for result in results]),
        now=concat([result.now for result in results]),
        advantages=advantages,
        drive=drive,
        affected={name: torch.cat([result.affected[name] for result in results]) for name in results[0].affected},
    )
