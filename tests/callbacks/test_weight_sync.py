from csv import DictReader
from dataclasses import replace

import pytest
import torch
from fixtures.tasks import Digits

from isentropic.callbacks.weight_sync import SyncError, WeightSync, canary
from isentropic.sampler.hf import TransformersSampler


class Deaf(TransformersSampler):
    """Reads the weights and keeps its own."""

    def update_weights(self, weights):
        for _ in weights:
            pass


class StaleHead(TransformersSampler):
    """The head is a copy of its embedding that no load reaches."""

    def update_weights(self, weights):
        if self.model.lm_head.weight is self.model.model.embed_tokens.weight:
            self.model.lm_head.weight = torch.nn.Parameter(self.model.lm_head.weight.clone(), requires_grad=False)
        head = self.model.lm_head.weight.clone()
        super().update_weights((name, head if name == "lm_head.weight" else value) for name, value in weights)


class StaleCache(TransformersSampler):
    """Scores with the weights it has, answers with those it had before."""

    current = None

    def update_weights(self, weights):
        before, self.current = self.current, {name: value.clone() for name, value in weights}
        self.previous = before or self.current
        super().update_weights(self.current.items())

    def write(self, requests, decoding):
        super().update_weights(self.previous.items())
        answers = super().write(requests, decoding)
        super().update_weights(self.current.items())
        return answers


class Hot(TransformersSampler):
    def write(self, requests, decoding):
        return super().write(requests, replace(decoding, temperature=1.0))


@pytest.fixture
def run(parts, tmp_path):
    def go(kind, temperature=1.0, steps=3, tolerance=1e-3, tokens=16):
        sampler = kind(parts.model, "float32", "cpu", 32, 64)
        module = go.module = parts.learner(size=32, temperature=temperature)
        task = Digits(parts.sums())
        data = parts.rollouts(sampler, task=task, batch_size=32, temperature=temperature, steps=steps)
        parts.trainer(tmp_path, [WeightSync(tolerance, tokens)]).fit(module, data)
        return module

    return go


def test_an_engine_that_ignores_weights_is_caught_at_the_first_update(run):
    with pytest.raises(RuntimeError, match="weights did not arrive: after an update of the policy"):
        run(Deaf)
    assert run.module.rollouts == 1 and run.module.changed


class OtherNames(TransformersSampler):
    """As where an engine knows a model's weights by names of its own."""

    def update_weights(self, weights):
        super().update_weights((name.replace("mlp", "ffn"), value) for name, value in weights)


class OtherShapes(TransformersSampler):
    def update_weights(self, weights):
        super().update_weights((name, value[..., :5]) for name, value in weights)


@pytest.mark.parametrize("kind, why", [(OtherNames, "weight model.layers.0.ffn"), (OtherShapes, "[Ss]hape|[Ss]ize")])
def test_weights_of_other_names_or_shapes_are_one_sentence_with_what_to_do(run, kind, why):
    wanted = rf"^the sampler did not take .*({why}).*it must hold the model of policy"
    with pytest.raises(SyncError, match=wanted) as said:
        run(kind)
    assert "\n" not in str(said.value) and str(said.value).endswith("which knows no other names")


def test_a_stale_head_is_caught_on_the_fixed_sequence(run):
    with pytest.raises(RuntimeError, match=r"disagree by .* on a fixed sequence, right after the weights were sent"):
        run(StaleHead)


def test_a_stale_cache_is_caught_on_the_samplers_own_completions(run):
    with pytest.raises(RuntimeError, match=r"disagree by .* on the sampler's own completions"):
        run(StaleCache)
    assert run.module.rollouts == 2


def test_another_temperature_is_caught_on_the_samplers_own_completions(run):
    with pytest.raises(RuntimeError, match=r"disagree by .* on the sampler's own completions"):
        run(Hot, temperature=0.6)
    assert run.module.rollouts == 1


def test_a_faithful_engine_passes_and_its_gap_is_logged_every_step(run, tmp_path):
    assert run(TransformersSampler, temperature=0.7).changed
    rows = list(DictReader((tmp_path / "metrics.csv").open()))
    assert [float(row["step"]) for row in rows] == [1, 2, 3]
    for name in ("sampler/logp_gap", "sampler/logp_gap_max", "sampler/canary_gap"):
        assert all(0 <= float(row[name]) < 1e-4 for row in rows)
    assert all(float(row["throughput/sync_seconds"]) > 0 for row in rows)


def test_a_sampler_without_log_probs_is_not_suspected(parts, tmp_path):
    sampler, module = parts.scripted(parts.some_right), parts.learner()
    trainer = parts.trainer(tmp_path, [WeightSync(1e-3, 8)])
    trainer.fit(module, parts.rollouts(sampler))
    assert module.rollouts == 3
    assert not any(name.startswith("sampler/") for name in trainer.callback_metrics)


def test_a_policy_that_is_not_a_number_is_no_agreement(parts):
    with pytest.raises(RuntimeError, match="disagree by nan"):
        WeightSync(1e-3, 8).check(float("nan"), "anything")


def test_a_policy_judged_alone_is_sent_to_the_sampler_first(parts, tmp_path):
    sampler = parts.scripted(parts.some_right)
    parts.trainer(tmp_path, [WeightSync(1e-3, 8)], limit_val_batches=1.0).validate(
        parts.learner(), parts.rollouts(sampler), verbose=False
    )
    assert sampler.events == ["start", "wake", "update_weights", "sample", "sample"]


def test_the_canary_is_a_prompt_repeated_within_the_context(parts):
    data = parts.rollouts(parts.scripted(parts.some_right))
    prompt = data.prompts.encode(data.problems_of("train")[0])
    assert canary(data, 6) == [*prompt, *prompt][:6]
    assert len(canary(data, 1000)) == len(prompt) + 5  # room for a prompt and six tokens, less one


def test_settings_that_could_not_tell_are_refused():
    for tolerance, tokens in ((0.0, 8), (1e-3, 1)):
        with pytest.raises(ValueError, match=r"must be above 0 and canary_tokens=\d at least 2"):
            WeightSync(tolerance, tokens)
