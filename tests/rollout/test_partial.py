"""Rollouts whose answers go on while the weights change, by a real model of which each version is kept."""

import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random

import pytest
import torch
from fixtures.models import COLOCATED
from transformers import AutoModelForCausalLM

from isentropic.sampler.hf import TransformersSampler
from isentropic.sampler.vllm.colocated import VllmSampler, available
from isentropic.state import StateError


def engine(model):
    sampler = TransformersSampler(model, dtype="float32", device="cpu", max_model_len=64, max_num_seqs=64)
    sampler.start()
    return sampler


def uneven(seed):
    """One answer in thirty has 24 tokens, and the others 2 to 8."""
    draw = Random(seed)
    return 24 if draw.random() < 1 / 30 else draw.randint(2, 8)


def data_of(parts, model, sampler=None, **settings):
    """Nothing ends an answer but its limit."""
    defaults = {"steps": 5, "partial": True, "max_staleness": 2, "decoding": parts.decoding(max_tokens=24)}
    data = parts.rollouts(sampler or engine(model), **(defaults | settings))
    data.generator = replace(data.generator, limit=uneven)
    return data


def versions(model, count):
    """A policy, and what it is after each of its large updates."""
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).requires_grad_(False)
    generator, found = torch.Generator().manual_seed(1), []
    for _ in range(count):
        found.append({name: tensor.clone() for name, tensor in policy.state_dict().items()})
        for weight in policy.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
    return policy, found


def rolled(data, weights):
    """All rollouts, each learnt from before the next: the engine has the weights of as many updates."""
    stream, found = data.train_dataloader(), []
    for batch in stream:
        stream.wait_for_pending()
        found.append(batch)
        data.sampler.update_weights(weights[len(found)].items())
    return found


def worst_gap(policy, weights, batches):
    """Between each token's log-prob as it was stored and that of the weights of its version."""
    gaps = []
    for step, batch in enumerate(batches):
        for version in range(step + 1):
            policy.load_state_dict(weights[version])
            logits = policy(input_ids=batch.tokens).logits[:, :-1].log_softmax(-1)
            logp = logits.gather(2, batch.tokens[:, 1:, None])[..., 0]
            of_it = batch.mask[:, 1:] & (step - batch.staleness[:, 1:] == version)
            gaps.append((logp - batch.sampler_logp[:, 1:])[of_it].abs())
    return float(torch.cat(gaps).max()), sum(map(len, gaps)), sum(int(batch.mask.sum()) for batch in batches)


@pytest.mark.parametrize("ahead", [False, True])
def test_each_token_has_the_log_prob_of_the_version_that_drew_it(parts, ahead):
    policy, weights = versions(parts.model, 6)
    batches = rolled(data_of(parts, parts.model, one_step_off_policy=ahead), weights)
    gap, compared, written = worst_gap(policy, weights, batches)
    assert gap < 1e-4 and compared == written
    shifted = [replace(batch, staleness=batch.staleness + batch.mask * (batch.staleness == 0)) for batch in batches[1:]]
    assert worst_gap(policy, weights, [batches[0], *shifted])[0] > 0.01, "the versions are too alike to tell"


def test_answers_of_several_versions_are_at_most_as_old_as_is_allowed(parts):
    _, weights = versions(parts.model, 6)
    batches = rolled(data_of(parts, parts.model), weights)
    assert max(int(batch.staleness.max()) for batch in batches) == 2
    ages = [row[mask] for batch in batches for row, mask in zip(batch.staleness, batch.mask, strict=True)]
    assert {len(age.unique()) for age in ages} >= {1, 2}
    assert all((age.diff() <= 0).all() for age in ages), "later tokens are of later versions"


def test_no_answer_is_preferred_for_being_short(parts):
    _, weights = versions(parts.model, 6)
    data = data_of(parts, parts.model)
    for step, batch in enumerate(rolled(data, weights)):
        assert batch.group.unique().tolist() == list(range(4 * step, 4 * step + 4))
        seeds = [data.generator.seed_of("train", group, 4) + child for group in range(4 * step, 4 * step + 4)
                 for child in range(4)]  # fmt: skip
        written = batch.mask.sum(1)
        assert all(
            length == uneven(seed) or batch.tokens[row][batch.mask[row]][-1] == 1
            for row, (length, seed) in enumerate(zip(written.tolist(), seeds, strict=True))
        )


def test_the_first_rollout_is_that_of_whole_answers(parts):
    _, weights = versions(parts.model, 6)
    whole = rolled(data_of(parts, parts.model, partial=False), weights)
    partial = rolled(data_of(parts, parts.model), weights)
    assert torch.equal(whole[0].tokens, partial[0].tokens)
    torch.testing.assert_close(whole[0].sampler_logp, partial[0].sampler_logp, equal_nan=True)
    assert not whole[1].staleness.any() and partial[1].staleness.any()


def saved(state):
    """As a checkpoint keeps it."""
    file = BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_a_resumed_run_goes_on_with_what_was_begun_to_the_bit(parts):
    _, weights = versions(parts.model, 6)
    data = data_of(parts, parts.model)
    stream, batches, states = data.train_dataloader(), [], []
    for batch in stream:
        batches.append(batch)
        states.append(saved(stream.state_dict()))
        data.sampler.update_weights(weights[len(batches)].items())
    assert any(len(answer["tokens"]) for group in states[1]["begun"][0]["groups"] for answer in group["answers"])
    again = data_of(parts, parts.model)
    again.sampler.update_weights(weights[2].items())
    resumed = again.train_dataloader()
    resumed.load_state_dict(states[1])
    for step, batch in enumerate(resumed, start=2):
        again.sampler.update_weights(weights[step + 1].items())
        for name in ("tokens", "mask", "group", "reward", "staleness"):
            assert torch.equal(getattr(batch, name), getattr(batches[step], name)), name
        assert torch.equal(batch.sampler_logp.nan_to_num(), batches[step].sampler_logp.nan_to_num())


def test_a_checkpoint_of_whole_answers_is_gone_on_with(parts):
    whole = data_of(parts, parts.model, partial=False)
    stream = whole.train_dataloader()
    next(iter(stream))
    partial = data_of(parts, parts.model).train_dataloader()
    partial.load_state_dict(stream.state_dict())
    assert next(iter(partial)).group.unique().tolist() == [4, 5, 6, 7]


def test_what_was_begun_on_other_ranks_or_in_other_groups_is_refused(parts):
    stream = data_of(parts, parts.model).train_dataloader()
    next(iter(stream))
    state = stream.state_dict()
    with pytest.raises(StateError, match="begun on 2 ranks, and here are 1; resume with as many"):
        stream.load_state_dict(state | {"begun": state["begun"] * 2})
    other = data_of(parts, parts.model, group_size=8).train_dataloader()
    with pytest.raises(StateError, match=r"begun 4 answers to a prompt, and rollout\.group_size=8"):
        other.load_state_dict(state)


@pytest.mark.parametrize("other", ["task", "order"])
def test_answers_that_were_begun_go_on_under_no_other_prompt(parts, other):
    stream = data_of(parts, parts.model).train_dataloader()
    next(iter(stream))
    state = saved(stream.state_dict())
    with pytest.raises(StateError, match=r"another prompt than that of group \d+ here; resume with the task, seed"):
        changed = {"task": parts.sums(seed=1)} if other == "task" else {"problems": 3}
        data_of(parts, parts.model, **changed).train_dataloader().load_state_dict(state)


def test_an_answer_that_is_begun_is_not_longer_than_it_may_become(parts):
    stream = data_of(parts, parts.model).train_dataloader()
    next(iter(stream))
    state = saved(stream.state_dict())
    state["begun"][0]["groups"][0]["answers"][0]["finish"] = None
    other = data_of(parts, parts.model)
    other.generator = replace(other.generator, limit=lambda seed: 1)
    with pytest.raises(StateError, match=r"an answer of \d+ tokens, and rollout\.decoding\.max_tokens leaves it 1"):
        other.train_dataloader().load_state_dict(state)


def test_what_cannot_be_partial_is_refused(parts):
    from isentropic.rollout.sampling.hard_again import HardAgain

    with pytest.raises(ValueError, match=r"rollout\.max_staleness=0 updates leave no answer"):
        data_of(parts, parts.model, max_staleness=0)
    with pytest.raises(ValueError, match="by which HardAgain chooses; take rollout/sampling=shuffled"):
        data_of(parts, parts.model, sampling=HardAgain(share=0.5, below=0.5, times=3))
    with pytest.raises(ValueError, match=r"log-probs of all tokens; take sampler\.logprobs=all"):
        next(iter(data_of(parts, parts.model, Silent(parts.model)).train_dataloader()))


@pytest.mark.numeric
@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="vLLM is not installed")
def test_what_goes_on_from_a_stale_cache_is_as_old_as_the_weights_it_was_begun_with(parts):
    """And where no weights change, answers are those that are written whole, to the token."""
    _, weights = versions(parts.model, 6)
    sampler = VllmSampler(parts.model, **(COLOCATED | {"sleep_level": 0}))
    sampler.start()

    def found(weights, **settings):
        sampler.update_weights(weights[0].items())
        return rolled(data_of(parts, parts.model, sampler, **settings), weights)

    try:
        whole, same = found(weights[:1] * 6, partial=False), found(weights[:1] * 6, stale_cache=True)
        batches = found(weights, stale_cache=True)
    finally:
        sampler.stop()
    for ours, theirs in zip(same, whole, strict=True):
        assert torch.equal(ours.group, theirs.group) and torch.equal(ours.tokens, theirs.tokens)
        torch.testing.assert_close(ours.sampler_logp, theirs.sampler_logp, equal_nan=True, atol=1e-4, rtol=0)
    assert torch.equal(batches[0].tokens, whole[0].tokens)
    ages = [row[mask].unique().tolist() for one in batches for row, mask in zip(one.staleness, one.mask, strict=True)]
    assert all(len(age) == 1 for age in ages) and {age for (age,) in ages} == {0, 1, 2}
    assert not any(batch.sampler_logp[batch.mask].isnan().any() for batch in batches)


def test_a_stale_cache_is_of_partial_rollouts(parts):
    with pytest.raises(ValueError, match=r"stale_cache=true is of answers that go on; take rollout\.partial=true"):
        data_of(parts, parts.model, partial=False, stale_cache=True)


class Silent(TransformersSampler):
    """Says no log-probs."""

    def __init__(self, model):
        super().__init__(model, dtype="float32", device="cpu", max_model_len=64, max_num_seqs=64)
        self.start()

    def write_until(self, requests, decoding, at_once, done, halted, keep=False):
        return super().write_until(
            requests, decoding, at_once, lambda place, one: done(place, replace(one, logp=None)), halted
        )


def of_rank(parts):
    """What a rank learns from, and the worst gap of its log-probs."""
    policy, weights = versions(parts.model, 6)
    batches = rolled(data_of(parts, parts.model), weights)
    gap, compared, written = worst_gap(policy, weights, batches)
    return {"groups": [batch.group.unique().tolist() for batch in batches], "gap": gap, "all": compared == written}


@pytest.mark.slow
def test_two_ranks_share_the_groups_of_each_rollout(parts, forks, tmp_path):
    for rank in forks(__file__, *(([tmp_path, rank, parts.model], {}) for rank in range(2))):
        assert rank.returncode == 0, rank.stderr
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    assert all(one["gap"] < 1e-4 and one["all"] for one in found)
    for step, (first, second) in enumerate(zip(*(one["groups"] for one in found), strict=True)):
        assert first == [4 * step, 4 * step + 2] and second == [4 * step + 1, 4 * step + 3]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from types import SimpleNamespace

    from fixtures import models

    folder, rank, model = sys.argv[1:]
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=int(rank), world_size=2)
    own = {**vars(models), "rollouts": lambda sampler, **settings: models.rollouts(model, sampler, **settings)}
    torch.save(of_rank(SimpleNamespace(**own | {"model": model})), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()
