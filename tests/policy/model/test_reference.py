from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.penalty.kl import Kl
from isentropic.policy.model.language_model import ModelSettings
from isentropic.policy.model.reference import reference_settings


def pulled(module, weight=1.0, estimator="k3"):
    object.__setattr__(module.algorithm, "penalty", {"kl": Kl(weight, estimator)})
    return module


def teaching_nothing(rollout):
    """Only the penalty is left in the loss."""
    return replace(rollout, reward=torch.ones(8), correct=torch.ones(8) > 0)


@pytest.fixture(scope="session")
def other_model(tiny_model, tmp_path_factory):
    """The tiny model with other weights."""
    from transformers import AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("other_model")
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.5)
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.identity
@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_the_start_as_reference_reads_the_same_and_pulls_at_nothing(policy, fit, rollout, tiny_model, estimator):
    module = pulled(policy(reference=tiny_model, micro_batch=2, temperature=0.6), estimator=estimator)
    metrics = fit(module, [teaching_nothing(rollout)])
    batch, *_ = module.last_rollout
    assert torch.equal(batch.ref_logp, batch.old_logp) and batch.old_logp.abs().max() > 0
    assert metrics["policy/grad_norm"] == 0


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_a_reference_is_read_at_the_sampling_temperature(policy, fit, rollout, other_model, temperature):
    from transformers import AutoModelForCausalLM

    module = pulled(policy(reference=other_model, temperature=temperature))
    fit(module, [rollout])
    batch, *_ = module.last_rollout
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(other_model)(batch.tokens).logits[:, :-1]
    expected = (logits / temperature).log_softmax(-1).gather(-1, batch.tokens[:, 1:, None])[..., 0]
    assert (batch.ref_logp - batch.old_logp)[batch.mask].abs().max() > 0.1
    torch.testing.assert_close(batch.ref_logp[:, 1:][batch.mask[:, 1:]], expected[batch.mask[:, 1:]], atol=1e-5, rtol=0)


def test_a_reference_stays_as_it_was_and_out_of_checkpoint_optimizer_and_sampler(policy, fit, rollout, tiny_model):
    module = pulled(policy(reference=tiny_model))
    fit(module, [rollout] * 2)
    frozen = dict(module.reference.model.weights())
    sent = dict(module.weights())
    assert frozen.keys() == sent.keys() and any(not torch.equal(frozen[name], sent[name]) for name in sent)
    fresh = start(module)
    assert all(torch.equal(frozen[name], fresh[name]) for name in fresh)
    assert len(list(module.parameters())) == len(list(module.policy.parameters()))
    assert module.state_dict().keys() == {f"policy.{name}" for name in module.policy.state_dict()}
    assert not any(parameter.requires_grad for parameter in module.reference.model.parameters())
    learnt = {id(p) for group in module.optimizers().param_groups for p in group["params"]}
    assert learnt == {id(p) for p in module.policy.parameters()}


def start(module):
    from isentropic.policy.model.language_model import LanguageModel

    return {name: value.clone() for name, value in LanguageModel(module.model).weights()}


def test_without_a_reference_its_log_probs_are_unknown(policy, fit, rollout):
    module = policy()
    fit(module, [rollout])
    assert module.reference is None and module.last_rollout[0].ref_logp.isnan().all()


def test_a_policy_that_is_only_judged_loads_no_reference(parts, tmp_path):
    module, data = parts.learner(reference=parts.model), parts.rollouts(parts.scripted(parts.some_right))
    parts.trainer(tmp_path, [], limit_val_batches=1).validate(module, data, verbose=False)
    assert module.policy is not None and module.reference is None


def test_a_reference_that_is_no_model_or_of_another_vocabulary_is_refused(tiny_model, tmp_path):
    settings = ModelSettings(tiny_model, "float32", 16, False, "full", False)
    assert reference_settings(tiny_model, settings) == replace(settings, activation_checkpointing="none")
    with pytest.raises(ValueError, match=r"reference=\./nowhere is not a model folder"):
        reference_settings("./nowhere", settings)
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(tiny_model)
    config.vocab_size = 99
    config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="has a vocabulary of 99 tokens and the policy one of 24"):
        reference_settings(str(tmp_path), settings)
