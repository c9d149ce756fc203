"""What a config asks of each rank."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from isentropic.algorithm.algorithm import Algorithm
from isentropic.planning.lengths import Lengths
from isentropic.policy.batches import cut

BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Engine:
    """The sampler's, of which each rank has one."""

    size: int  # bytes of a weight
    ranks: int  # that share one engine's weights
    context: int  # tokens
    sequences: int  # at one time
    cache: float | None  # GiB of keys and values; None is what `share` leaves
    share: float | None  # of the card; None for an engine that takes what it needs
    sleeps: bool
    eager: bool  # without CUDA graphs


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
    longest: int  # tokens of an answer
    micro_batch: int | None
    micro_tokens: int | None
    sharded_gradients: bool
    size: int  # bytes of a number in the policy's products
    chunk: int
    checkpointing: bool
    reference: bool
    rereads: int  # of the rows of one optimizer step, in a rollout
    entropy_gradient: bool
    engine: Engine | None
    judged: int  # answers of an evaluation
    judged_longest: int
    evaluations: int
    verifiers: int
    lengths: Lengths

    @property
    def mini(self) -> int:
        """Rows of an optimizer step."""
        return self.rows // self.updates

    def parts(self, rows: int) -> list[list[int]]:
        """Widths of the rows that go through the policy together, as it cuts them; each part is padded to its first."""
        widths = [self.lengths.prompt + answer for answer in self.lengths.answers(rows, self.longest)]
        return [[widths[i] for i in part] for part in cut(widths, self.micro_batch, self.micro_tokens)]


def workload(settings: dict[str, Any], algorithm: Algorithm, lengths: Lengths) -> Workload:
    """From the resolved config, without `hydra`."""
    rollout, policy, trainer = settings["rollout"], settings["policy"], settings["trainer"]
    model, optimization, judging = policy["model"], policy["optimization"], rollout["judging"]
    ranks = trainer["devices"] * trainer["num_nodes"]
    prompts = rollout["size"] // rollout["group"]
    for name, value in ("rollout.size / rollout.group", prompts), ("mini_batch", optimization["mini_batch"]):
        if value % ranks:
            raise ValueError(f"{name}={value} is not a multiple of the {ranks} ranks it is spread over")
    strategy = trainer["strategy"]
    sharded = isinstance(strategy, dict) and str(strategy.get("_target_")).endswith("ModelParallelStrategy")
    updates = rollout["size"] // optimization["mini_batch"]
    rounds = min(rollout["max_tries"], ceil(1 / lengths.kept)) if "informative" in rollout["curation"] else 1
    answering = engine(settings["sampler"])
    judged = ceil(judging["problems"] / ranks) * judging["count"]
    return Workload(
        ranks=ranks,
        shards=int(strategy["data_parallel_size"]) if sharded else 1,
        rows=rollout["size"] // ranks,
        group=rollout["group"],
        prompts_asked=rounds * prompts // ranks,
        updates=updates,
        rollouts=rollout["steps"],
        longest=rollout["decoding"]["max_tokens"],
        micro_batch=optimization["micro_batch"],
        micro_tokens=optimization["micro_tokens"],
        sharded_gradients=optimization["sharded_gradients"],
        size=BYTES[model["compute_dtype"]],
        chunk=model["chunk"],
        checkpointing=model["activation_checkpointing"] != "none",
        reference=policy["reference"] is not None,
        rereads=updates - 1 if policy["reread"] and algorithm.credit else 0,
        entropy_gradient=any(penalty.needs_entropy for penalty in algorithm.penalty.values()),
        engine=answering,
        judged=judged,
        judged_longest=judging["decoding"]["max_tokens"],
        evaluations=2 + (rollout["steps"] - 1) // trainer["val_check_interval"],
        verifiers=settings["task"].get("workers", 1),
        lengths=within(lengths, answering, rollout["decoding"]["max_tokens"]),
    )


def within(lengths: Lengths, engine: Engine | None, longest: int) -> Lengths:
    """Prompts are no longer than the engine's context leaves."""
    return lengths if engine is None else replace(lengths, prompt=max(1, min(lengths.prompt, engine.context - longest)))


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
        sleeps=sampler.get("sleep_level", 0) > 0,
        eager=sampler.get("enforce_eager", True),
    )
