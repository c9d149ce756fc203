from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.truncated_importance import TruncatedImportance
from isentropic.batch import Credit, Drive


def weights(batch, now):
    credit = Credit.initial(torch.ones_like(batch.old_logp), batch.mask)
    return TruncatedImportance(ceiling=2.0)(credit, now, batch, Drive()).advantages


def test_a_token_that_the_sampler_favoured_counts_for_less_and_none_for_more_than_the_ceiling(paper):
    batch, now = paper
    sampler = batch.old_logp.clone()
    sampler[0, :3] += torch.tensor([2.0, 0.5, 0.1], dtype=torch.float64).log()
    found = weights(replace(batch, sampler_logp=sampler), now)
    assert found[0].tolist() == pytest.approx([0.5, 2, 2, 1, 1])


def test_the_sampler_need_not_know_padding(paper):
    batch, now = paper
    found = weights(replace(batch, sampler_logp=batch.sampler_logp.masked_fill(~batch.mask, torch.nan)), now)
    assert torch.equal(found, torch.ones_like(found))


def test_unknown_log_probs_are_refused(paper):
    batch, now = paper
    unknown = replace(batch, sampler_logp=torch.full_like(batch.sampler_logp, torch.nan))
    with pytest.raises(ValueError, match="no sampler log-prob on 14 tokens; the sampler must return log-probs on all"):
        weights(unknown, now)


def test_a_ceiling_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"truncated_importance\.ceiling=0"):
        TruncatedImportance(0)


@pytest.mark.golden
def test_the_recipe_weighs_the_tokens_of_dapo(build, charge, paper):
    batch, now = paper
    sampler = batch.old_logp.clone()
    sampler[0, 0] -= torch.tensor(1.5).double().log()
    sampler[0, 1] -= torch.tensor(2.5).double().log()
    credit = charge(build("algorithm=tis"), replace(batch, sampler_logp=sampler), now)[3]
    assert (credit.advantages[0] / 0.866024).tolist() == pytest.approx([1.5, 2, 1, 1, 1], abs=2e-6)


@pytest.mark.identity
def test_where_sampler_and_trainer_agree_it_is_dapo(build, charge, paper):
    loss, grad, _, _ = charge(build("algorithm=tis"), *paper)
    plain, full, _, _ = charge(build("algorithm=dapo"), *paper)
    assert loss == plain and torch.equal(grad, full)
