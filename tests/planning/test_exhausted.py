import pytest
import torch

from isentropic.planning.exhausted import ran_out, what_to_lower

SETTINGS = {
    "policy": {
        "optimization": {"micro_batch": 64, "max_tokens_per_micro_batch": None},
        "model": {"logits_chunk": 4096, "activation_checkpointing": "none"},
    },
    "sampler": {"kv_cache_gib": None, "gpu_memory_utilization": 0.4, "max_num_seqs": 512},
}


def test_what_has_no_more_memory_is_known_from_other_errors():
    with pytest.raises(RuntimeError) as host:
        torch.empty(2**60)
    for error in (host.value, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), MemoryError()):
        assert ran_out(error), error
    for error in (RuntimeError("shapes differ"), ValueError("memory"), KeyboardInterrupt()):
        assert not ran_out(error), error


def test_what_the_phase_holds_is_to_be_lowered_with_its_values():
    said = what_to_lower("update", SETTINGS)
    assert said.startswith(
        "lower policy.optimization.micro_batch=64 or policy.model.logits_chunk=4096, or take policy."
    )
    assert "max_tokens" not in said and "isentropic plan" in said
    for phase in ("rollout/sampling", "the first sync", "sync"):
        said = what_to_lower(phase, SETTINGS)
        assert said.startswith("lower sampler.gpu_memory_utilization=0.4 or sampler.max_num_seqs=512; ")
    assert what_to_lower("the engine's start", {}).startswith("isentropic plan")


def test_layers_that_keep_only_their_inputs_can_keep_no_less():
    model = {"logits_chunk": 4096, "activation_checkpointing": "full"}
    said = what_to_lower("update", {"policy": {"model": model}})
    assert said.startswith("lower policy.model.logits_chunk=4096; ")
