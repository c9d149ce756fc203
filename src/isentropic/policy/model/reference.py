"""A frozen policy, the distance to which a penalty measures: read once per rollout, never learnt, saved or sent."""

from contextlib import nullcontext
from dataclasses import replace

from torch.distributed.device_mesh import DeviceMesh
from transformers import AutoConfig

from isentropic.batch import PerToken, RolloutBatch
from isentropic.policy.batching.micro_batches import MicroBatch
from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.lora import without


class Reference:
    """No torch module, so that no optimizer, checkpoint or weight sync of the policy ever meets its weights.

    It computes as the policy does, so a reference that is the policy's start reads the same log-probs to the last bit.
    Under FSDP2 it is sharded like the policy, over the same ranks. The base of a policy whose adapters learn is that
    policy without them, and takes no memory.
    """

    def __init__(self, settings: ModelSettings, mesh: DeviceMesh | None, policy: LanguageModel) -> None:
        self.free = policy.adapter is not None and settings.path == policy.settings.path
        self.model = policy if self.free else LanguageModel(settings, mesh).requires_grad_(False)

    def logp(self, batch: RolloutBatch, micros: list[MicroBatch], temperature: float) -> PerToken:
        """Log-probs at the sampling temperature; zero off the mask. Collective where it is sharded."""
        self.model.to(batch.tokens.device)  # Lightning moves modules only
        with without(self.model.modules()) if self.free else nullcontext():
            logp = self.model.batch_stats(batch, micros, temperature, "none").logp
        if not self.free:
            self.model.reshard()
        return logp


def reference_settings(path: str, model: ModelSettings) -> ModelSettings:
    """Those of the policy, of another folder or hub name.

    Raises ValueError where there is no model, or one of another vocabulary than the policy's.
    """
    try:
        settings = replace(model, path=path, activation_checkpointing="none")
        theirs, ours = (AutoConfig.from_pretrained(p).vocab_size for p in (path, model.path))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"policy.reference={path} is not a model folder, nor one that the hub or what is cached of it gives here"
        ) from error
    if theirs != ours:
        raise ValueError(
            f"policy.reference={path} has a vocabulary of {theirs} tokens and the policy one of {ours}; take one of "
            "the policy's family, such as the one it starts from"
        )
    return settings
