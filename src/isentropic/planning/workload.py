"""What a config asks of each rank."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from isentropic.algorithm.algorithm import Algorithm
from isentropic.distributed import alone
from isentropic.planning.architecture import Architecture
from isentropic.planning.lengths import Lengths
from isentropic.policy.batching.micro_batches import split_evenly, split_padded
from isentropic.policy.batching.packing import Prompts, split_by_prompt
from isentropic.policy.update import reuses_update_forward

FP32 = 4
BYTES = {"float32": FP32, "bfloat16": 2}


@dataclass(frozen=True)
class Engine:
    """The sampler's, of which each rank has one."""

    size: int  # bytes of a weight
    ranks: int  # that share one engine's weights
    is_remote: bool  # one for all, on cards of its own
    context: int  # tokens
    sequences: int  # at one time
    cache: float | None  # GiB of keys and values; None is what `share` leaves
    share: float | None  # of the card; None for an engine that takes what it needs
    sleep_level: int  # 0: never; 1: its weights wait in host memory; 2: they are dropped
    eager: bool  # without CUDA graphs
    fast_decode: bool  # steps that only decode go fast decoding through its scheduler
    returns_logprobs: bool  # log-probs of all completions


@dataclass(frozen=True)
class Adapter:
    """LoRA's."""

    rank: int
    targets: tuple[str, ...]
    size: int  # bytes of a frozen weight


@dataclass(frozen=True)
class Workload:
    """Counts of rows are per rank. Raises ValueError where the ranks cannot share the work."""

    ranks: int
    shards: int  # ranks that divide weights, gradients and optimizer among them
    rows: int  # of a rollout
    group: int
    prompts_asked: int  # of a rollout, dropped ones included
    updates: int  # optimizer steps of a rollout
    rollouts: int
    max_tokens: int  # tokens of an answer
    micro_batch: int | None
    max_tokens_per_micro_batch: int | None
    max_tokens_no_grad: int | None
    sharded_gradients: bool
    reshard_after_forward: bool
    size: int  # bytes of a number in the policy's products
    logits_chunk: int
    packed: bool
    share_prompts: bool  # a prompt once for all of its answers in a micro-batch
    checkpointing: str  # none, selective or full
    compiled: bool  # layers are compiled
    adapter: Adapter | None
    reference: bool  # a frozen policy is read too
    reference_weights: bool  # which has weights of its own, as the base of adapters has not
    reuse_update_forward: bool  # no reading before the update
    one_step_off_policy: bool  # rollouts are drawn during the update before them
    logp_recomputations: int  # of the rows of one optimizer step, in a rollout
    engine: Engine | None
    eval_answers: int  # answers of an evaluation
    eval_max_tokens: int
    evaluations: int
    verifiers: int | None  # processes; None where answers are judged at once
    lengths: Lengths

    @property
    def mini_batch(self) -> int:
        """Rows of an optimizer step."""
        return self.rows // self.updates

    @property
    def gpus_of_run(self) -> int:
        """Of the run, with those of a server."""
        return self.ranks + (self.engine.ranks if self.engine and self.engine.is_remote else 0)

    @property
    def no_grad_passes(self) -> int:
        """Of the whole rollout, by the policy and a frozen one."""
        return (not self.reuse_update_forward) + self.reference

    def micro_batches(self, rows: int, learns: bool = True) -> list[list[int]]:
        """Widths of the rows that go through the policy together, as it cuts them; the first is the widest.

        A run that is under way plans too, on its first rank, which must not wait for the others.
        """
        before = self.lengths.prompt + self.lengths.observed
        widths = [before + answer for answer in self.lengths.answers(rows, self.max_tokens)]
        with alone():
            if not self.packed:
                parts = split_padded(widths, self.micro_batch, self.max_tokens_per_micro_batch)
            else:
                limits = (
                    (self.micro_batch, self.max_tokens_per_micro_batch) if learns else (None, self.max_tokens_no_grad)
                )
                groups = Prompts([row // self.group for row in range(rows)], [self.lengths.prompt] * rows)
                parts = (
                    split_by_prompt(widths, groups, *limits) if self.share_prompts else split_evenly(widths, *limits)
                )
        return [sorted((widths[i] for i in part), reverse=True) for part in parts]

    def shared_prompts(self, part: list[int]) -> float:
        """Prompts that do not go through once more, where rows begin and end anywhere within their groups."""
        return (len(part) - 1) * (1 - 1 / self.group) if self.share_prompts else 0.0

    def tokens(self, part: list[int]) -> int:
        """That the layers see: all but the last of each row, or a rectangle."""
        line = sum(part) - len(part) - round(self.shared_prompts(part) * self.lengths.prompt)
        return line if self.packed else len(part) * part[0]

    def answer_tokens(self, part: list[int]) -> int:
        """Tokens that the head sees."""
        return sum(part) - len(part) * (self.lengths.prompt + self.lengths.observed)


def workload(settings: dict[str, Any], algorithm: Algorithm, lengths: Lengths) -> Workload:
    """From the resolved config, without `hydra`."""
    rollout, policy, trainer = settings["rollout"], settings["policy"], settings["trainer"]
    model, optimization, evaluation = policy["model"], policy["optimization"], rollout["evaluation"]
    ranks = trainer["devices"] * trainer["num_nodes"]
    prompts = rollout["batch_size"] // rollout["group_size"]
    for name, value in ("rollout.batch_size / rollout.group_size", prompts), ("mini_batch", optimization["mini_batch"]):
        if value % ranks:
            raise ValueError(f"{name}={value} is not a multiple of the {ranks} ranks it is spread over")
    strategy = trainer["strategy"]
    sharded = isinstance(strategy, dict) and str(strategy.get("_target_")).endswith("ModelParallelStrategy")
    updates = rollout["batch_size"] // optimization["mini_batch"]
    rounds = min(rollout["max_tries"], ceil(1 / lengths.kept)) if "informative" in rollout["curation"] else 1
    answering = engine(settings["sampler"])
    if evaluation["problems"] is None:
        raise ValueError("rollout.evaluation.problems=null is all, and a plan does not read the sets; say how many")
    evaluations = 2 + (rollout["steps"] - 1) // trainer["val_check_interval"]
    return Workload(
        ranks=ranks,
        shards=int(strategy["data_parallel_size"]) if sharded else 1,
        rows=rollout["batch_size"] // ranks,
        group=rollout["group_size"],
        prompts_asked=rounds * prompts // ranks,
        updates=updates,
        rollouts=rollout["steps"],
        max_tokens=rollout["decoding"]["max_tokens"],
        micro_batch=optimization["micro_batch"],
        max_tokens_per_micro_batch=optimization["max_tokens_per_micro_batch"],
        max_tokens_no_grad=optimization["max_tokens_no_grad"],
        sharded_gradients=optimization["sharded_gradients"],
        reshard_after_forward=optimization["reshard_after_forward"],
        size=BYTES[model["compute_dtype"]],
        logits_chunk=model["logits_chunk"],
        packed=model["packing"],
        share_prompts=model["packing"] and model["share_prompts"],
        checkpointing=model["activation_checkpointing"],
        compiled=model["compile"],
        adapter=adapter(policy["adapter"]),
        reference=policy["reference"] is not None,
        reference_weights=policy["reference"] not in (None, model["path"] if policy["adapter"] else None),
        reuse_update_forward=spares_forward(policy, updates, algorithm),
        logp_recomputations=updates - 1 if policy["recompute_logp"] and algorithm.credit else 0,
        one_step_off_policy=rollout["one_step_off_policy"],
        engine=answering,
        eval_answers=ceil(evaluation["problems"] / ranks) * evaluation["count"],
        eval_max_tokens=evaluation["decoding"]["max_tokens"],
        evaluations=0 if trainer.get("limit_val_batches") == 0 else evaluations,
        verifiers=settings["task"].get("workers"),
        lengths=within_context(lengths, answering, rollout["decoding"]["max_tokens"]),
    )


def spares_forward(policy: dict[str, Any], updates: int, algorithm: Algorithm) -> bool:
    """Of settings, of which those of older runs say nothing of early_logp."""
    return reuses_update_forward(
        policy["skip_old_logp_forward"], updates, algorithm, policy.get("early_logp", "policy")
    )


def as_read(work: Workload, model: Architecture) -> tuple[Workload, list[str]]:
    """What a run makes of its settings at its start for this model, and a sentence on what it does not follow."""
    if work.packed and model.padded:
        said = f"policy.model.packing=true: rows are read padded, as {model.padded}; memory and time are those of that"
        return replace(work, packed=False, share_prompts=False), [said]
    if work.share_prompts and model.windowed:
        said = "policy.model.share_prompts=true: each answer reads its own prompt, as layers have a window"
        return replace(work, share_prompts=False), [said]
    return work, []


def within_context(lengths: Lengths, engine: Engine | None, longest: int) -> Lengths:
    """Prompts are no longer than the engine's context leaves."""
    if engine is None:
        return lengths
    return replace(lengths, prompt=max(1, min(lengths.prompt, engine.context - longest - lengths.observed)))


def adapter(settings: dict[str, Any] | None) -> Adapter | None:
    if settings is None:
        return None
    return Adapter(settings["rank"], tuple(settings["targets"]), BYTES[settings["base_dtype"]])


def engine(sampler: dict[str, Any]) -> Engine | None:
    """None where answers come from no model."""
    if "max_model_len" not in sampler:
        return None
    return Engine(
        size=BYTES[sampler["dtype"]],
        ranks=sampler.get("tensor_parallel_size", 1),
        context=sampler["max_model_len"],
        sequences=sampler["max_num_seqs"],
        cache=sampler.get("kv_cache_gib"),
        share=sampler.get("gpu_memory_utilization"),
        is_remote="url" in sampler,
        sleep_level=sampler.get("sleep_level", 0),
        eager=sampler.get("enforce_eager", True),
        fast_decode=sampler.get("fast_decode", "url" in sampler),
        returns_logprobs=sampler.get("logprobs", "all") == "all",
    )
