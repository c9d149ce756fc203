"""PolicyModule: read, judge, credit, charge, step. One training_step is one rollout batch."""

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
from isentropic.policy.batching.balance import balanced
from isentropic.policy.batching.micro_batches import MicroBatch, concat, dummy_row, micro_batches, pack
from isentropic.policy.checkpoint.sharded import CheckpointFiles
from isentropic.policy.log_row import Record, Seen
from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.lora import LoraSettings
from isentropic.policy.model.reference import Reference, reference_settings
from isentropic.policy.optimization import Optimization
from isentropic.policy.timing import Clock, timed
from isentropic.policy.update import Learnt, Update, scored
from isentropic.reductions import masked_mean


class PolicyModule(LightningModule):
    """The policy in training. Raises ValueError where sizes do not divide."""

    def __init__(
        self,
        algorithm: Algorithm,
        evaluation: MetricCollection,
        model: ModelSettings,
        reference: str | None,  # folder or hub name of a frozen policy, for penalties that measure the distance to it
        optimization: Optimization,
        size: int,  # completions of a rollout, over all ranks
        temperature: float,  # of sampling, and so of every log-prob and entropy here
        recompute_logp: bool,  # credit rules of later optimizer steps see the current policy, at one more forward
        skip_old_logp_forward: bool,  # where one update is all and nothing asks before, its forward gives old_logp
        seed: int,
        adapter: LoraSettings | None,  # learns in place of the weights, which stay as they are
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        if size % optimization.mini_batch:
            raise ValueError(
                f"mini_batch={optimization.mini_batch} does not divide rollout.batch_size={size}; take a divisor of it"
            )
        self.algorithm, self.evaluation = algorithm, evaluation
        self.model, self.optimization, self.adapter = model, optimization, adapter
        self.size, self.updates = size, size // optimization.mini_batch
        self.temperature, self.recompute_logp, self.seed = temperature, recompute_logp, seed
        self.skip_old_logp_forward = skip_old_logp_forward
        self.policy = cast(LanguageModel, None)  # until configure_model
        self.frozen = reference_settings(reference, model) if reference else None
        self.reference: Reference | None = None  # until configure_model, and where none is asked for
        self.rollouts = 0  # rollout batches learnt from
        self.moved = False  # whether the last rollout changed the policy
        self.record, self.clock = Record(), Clock()
        self.seen: Seen | None = None

    def configure_model(self) -> None:
        if self.policy is None:  # pyright: ignore[reportUnnecessaryComparison]
            self.optimization.check(self.trainer)
            mesh = None if self.device_mesh is None else self.device_mesh["data_parallel"]  # of FSDP2
            self.policy = LanguageModel(self.model, mesh, self.adapter)
            self.strict_loading = self.adapter is None  # a checkpoint of adapters lacks their base
            if mesh is None:
                self.trainer.strategy.checkpoint_io = CheckpointFiles(
                    optimizer=self.trainer.state.fn == TrainerFn.FITTING
                )
            if self.frozen and self.trainer.state.fn == TrainerFn.FITTING:
                self.reference = Reference(self.frozen, mesh, self.policy)

    def configure_optimizers(self) -> Any:
        optimizer, warmup = self.optimization.build(self.policy.parameters())
        return [optimizer], [warmup]

    def training_step(self, rollouts: RolloutBatch, batch_idx: int) -> None:
        torch.manual_seed(hash((self.seed, self.rollouts, self.global_rank)) & 0x7FFFFFFF)
        batch = self.read(balanced(rollouts, self.updates) if self.optimization.balance else rollouts)
        progress = self.rollouts / int(self.trainer.num_training_batches)
        entropy = masked_mean(batch.old_entropy, batch.mask).item()
        drive = self.algorithm.control.update(Vitals(entropy, progress))
        advantages = self.algorithm.advantage(batch)
        self.moved = False
        learnt, steps = list[Learnt](), list[Metrics]()
        for index, rows in enumerate(torch.arange(len(batch.tokens)).tensor_split(self.updates)):
            mini, worth = (batch[rows], advantages[rows]) if len(rows) else (dummy_row(batch), advantages[:1])
            step = self.update(mini, worth, drive, first=index == 0)
            learnt += [step] if len(rows) else []
            steps.append(step.metrics | self.step())
        batch = concat([step.batch for step in learnt])
        credit, now = concat([step.credit for step in learnt]), concat([step.now for step in learnt])
        judged = diagnostics.describe(batch, advantages)
        touched = {name: torch.cat([step.acted[name] for step in learnt]) for name in self.algorithm.credit}
        self.seen = Seen(batch, credit, now, advantages, drive, touched)
        self.rollouts += 1
        target = vars(self.algorithm.control).get("target")
        self.log_dict(self.record.row(judged | ({} if target is None else {"control/target": target}), steps))
        self.log("step", float(self.rollouts))

    @timed("read")
    def read(self, rollouts: RolloutBatch) -> ScoredBatch:
        """The rollout as the policy sees it before any update; NaN where the update will see that by itself."""
        unknown = torch.full_like(rollouts.sampler_logp, torch.nan)
        stats = TokenStats(unknown, unknown, unknown) if self.once else self.look(rollouts)
        ref_logp = unknown
        if self.reference:
            ref_logp = self.reference.logp(rollouts, self.reading(rollouts), self.temperature)
        return scored(rollouts, stats, ref_logp)

    @property
    def once(self) -> bool:
        """Whether the forward of the only update is also the reading before it, as nothing asks for that earlier."""
        return self.skip_old_logp_forward and self.updates == 1 and not self.algorithm.reads_policy

    def look(self, batch: RolloutBatch) -> TokenStats:
        with self.policy.keep_gathered(enabled=not self.optimization.reshard_after_forward):
            return self.policy.batch_stats(batch, self.reading(batch), self.temperature, "value")

    def micro_batches(self, batch: RolloutBatch) -> list[MicroBatch]:
        limits = self.optimization.micro_batch, self.optimization.max_tokens_per_micro_batch
        return micro_batches(batch.mask, *limits, self.policy.packed, self.policy.shared_prompts(batch))

    def reading(self, batch: RolloutBatch) -> list[MicroBatch]:
        """Micro-batches for forwards that nothing is learnt from: a line may be longer, and of any number of rows."""
        if not self.policy.packed:
            return self.micro_batches(batch)
        return micro_batches(
            batch.mask, None, self.optimization.max_tokens_no_grad, True, self.policy.shared_prompts(batch)
        )

    def update(self, batch: ScoredBatch, advantages: PerToken, drive: Drive, first: bool) -> Learnt:
        """The gradient of one optimizer step, whatever the number of micro-batches."""
        current = self.recompute_logp and not first and bool(self.algorithm.credit)
        now = self.look(batch) if current else TokenStats(batch.old_logp, batch.old_entropy, batch.old_sensitivity)
        update = Update(
            self.policy, self.algorithm, self.temperature, self.optimization.sharded_gradients, self.once,
            self.manual_backward,
        )  # fmt: skip
        with self.policy.keep_gathered(enabled=not self.optimization.reshard_after_forward):
            return update(batch, advantages, now, drive, self.micro_batches(batch))

    @timed("optimizer")
    def step(self) -> Metrics:
        """Clips and steps; a gradient that is not finite is dropped on every rank, and said."""
        optimizer = cast(LightningOptimizer, self.optimizers())
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.optimization.max_grad_norm)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        finite = bool(norm.isfinite())
        if finite:
            optimizer.step()
        else:
            rank_zero_warn(f"rollout {self.rollouts + 1}: the gradient norm is {norm}; this update is left out")
        self.moved |= finite and bool(norm > 0)
        optimizer.zero_grad()
        cast(LambdaLR, self.lr_schedulers()).step()
        return {"policy/grad_norm": norm, "policy/skipped": float(not finite)}

    def validation_step(self, answers: RolloutBatch, batch_idx: int) -> None:
        self.evaluation.update(answers.correct, answers.group)

    def on_validation_epoch_end(self) -> None:
        scores = {name: float(value) for name, value in self.evaluation.compute().items()}
        self.evaluation.reset()
        self.log_dict({f"eval/{name}": value for name, value in scores.items()})
        self.log("step", float(self.rollouts))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["isentropic"] = {
            "model": self.policy.shape(),
            "path": self.model.path,
            "adapter": self.adapter and self.adapter.state(self.model.path),
            "control": self.algorithm.control.state_dict(),
            "rollouts": self.rollouts,
            "record": self.record.state_dict(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.trainer.state.fn == TrainerFn.FITTING:  # a policy can be judged under any settings
            self.algorithm.control.load_state_dict(checkpoint["isentropic"]["control"])
            self.record.load_state_dict(checkpoint["isentropic"].get("record", {}))
        self.rollouts = checkpoint["isentropic"]["rollouts"]

    @torch.no_grad()
    def score(self, tokens: list[int]) -> list[float]:
        """Log-probs at temperature 1 of tokens[1:], as the policy sees them now. Collective under FSDP."""
        ids = torch.tensor([tokens], device=self.device)
        mask = torch.arange(len(tokens), device=self.device)[None] > 0
        line = pack(mask, [len(tokens)]) if self.policy.packed else None
        scores = self.policy(ids, mask, len(tokens), 1.0, "none", line)[0][0, 1:].tolist()
        self.policy.reshard()  # the next to need memory is the sampler
        return scores

    def weights(self, dtype: str | None = None) -> Iterator[tuple[str, Tensor]]:
        return self.policy.weights(dtype)
