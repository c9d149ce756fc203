"""What settings and parts were called before: the table that error messages and readers of old run folders share.

A row is added whenever a key, an option of a group or a part's class or module is renamed.
"""

from collections.abc import Mapping
from typing import Any

# dotted key of before → of now; what lies below a key moves with it
KEYS = {
    "rollout.size": "rollout.batch_size",
    "rollout.group": "rollout.group_size",
    "rollout.ahead": "rollout.one_step_off_policy",
    "rollout.judging": "rollout.evaluation",
    "policy.reread": "policy.recompute_logp",
    "policy.one_forward": "policy.skip_old_logp_forward",
    "policy.model.chunk": "policy.model.logits_chunk",
    "policy.optimization.micro_tokens": "policy.optimization.max_tokens_per_micro_batch",
    "policy.optimization.read_tokens": "policy.optimization.max_tokens_no_grad",
    "policy.optimization.sharded_weights": "policy.optimization.reshard_after_forward",
    "sampler.patience": "sampler.timeout",
    "sampler.short_way": "sampler.fast_decode",
    "callbacks.sampler": "callbacks.weight_sync",
    "benchmark.group": "benchmark.group_size",
    "card.told": "card.logprob",
    "card.text": "card.detokenize",
    "card.spare": "card.fragmentation",
    "card.sequence_plain": "card.sequence_default",
    "ckpt": "ckpt_path",  # of export
}
# group=option
OPTIONS = {
    "callbacks=sampler": "callbacks=none",
    "hydra/launcher=slurm_array": "hydra/launcher=slurm",
}
# group=option that is looked for and cannot be → what to do instead
NEVER = {
    "logger=neptune": "Neptune is shut down, and Lightning's logger for it raises; take mlflow, aim, comet or wandb",
}
# keys that are gone → what to do instead
GONE = {
    "policy.size": "it is rollout.batch_size, which the policy reads from the rollout",
    "policy.temperature": "it is rollout.decoding.temperature, which the policy reads from the rollout",
}
# keys that earlier runs do not have → what stood for them
FOLLOWED = {"task.test_seed": "task.seed", "rollout.evaluation.seed": "rollout.seed"}
# dotted path of a module or class, as `_target_` has it
TARGETS = {
    "isentropic.callbacks.curves": "isentropic.callbacks.summary",
    "isentropic.callbacks.dropped": "isentropic.callbacks.alarms",
    "isentropic.callbacks.idle": "isentropic.callbacks.alarms",
    "isentropic.callbacks.sampler.SamplerCallback": "isentropic.callbacks.weight_sync.WeightSync",
    "isentropic.policy.adapters.LowRank": "isentropic.policy.model.lora.LoraSettings",
    "isentropic.policy.model.ModelSettings": "isentropic.policy.model.language_model.ModelSettings",
    "isentropic.pretrain": "isentropic.commands.pretrain",
    "isentropic.rollout.datamodule.Judging": "isentropic.rollout.datamodule.EvaluationSettings",
    "isentropic.sampler.server": "isentropic.sampler.vllm.server",
    "isentropic.sampler.transformers": "isentropic.sampler.hf",
    "isentropic.sampler.vllm.VllmSampler": "isentropic.sampler.vllm.colocated.VllmSampler",
    "isentropic.task.math": "isentropic.task.math_dataset",
}


def now(name: str, table: Mapping[str, str] = KEYS) -> str | None:
    """What a dotted key, or something above it, is called now; None where nothing was renamed."""
    known, rest = name, ""
    while known not in table:
        known, dot, last = known.rpartition(".")
        if not dot:
            return None
        rest = f".{last}{rest}"
    return table[known] + rest


def answer(name: str) -> str:
    """One sentence on a key (`rollout.size`) or an option (`callbacks=sampler`) of before; empty for any other."""
    for gone, advice in GONE.items():
        if name == gone or name.startswith(f"{gone}."):
            return f"{gone} is gone; {advice}"
    if name in NEVER:
        return f"{name} cannot be: {NEVER[name]}"
    new = OPTIONS.get(name) if "=" in name else now(name)
    return f"{name} is now called {new}" if new else ""


def modern(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys and values of an earlier run's config.yaml, as they would be written today."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if any(key == gone or key.startswith(f"{gone}.") for gone in GONE):
            continue
        new = key if key == "ckpt" else now(key) or key
        found[new] = now(value, TARGETS) or value if key.endswith("_target_") and isinstance(value, str) else value
    return found
