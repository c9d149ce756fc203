from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.sequence_importance import SequenceImportance
from isentropic.batch import Credit, Drive


def weights(batch, now, ceiling=2.0):
    credit = Credit.initial(torch.ones_like(batch.old_logp), batch.mask)
    return SequenceImportance(ceiling)(credit, now, batch, Drive()).advantages


@pytest.mark.golden
def test_an_answers_tokens_share_the_truncated_product_of_their_ratios(paper):
    batch, now = paper
    ratio = torch.ones(4, 5, dtype=torch.float64)
    ratio[0, :2] = torch.tensor([0.5, 1.5])
    ratio[1, :2] = torch.tensor([1.8, 1.5])  # 2.7, above the ceiling
    batch = replace(batch, sampler_logp=(batch.old_logp - ratio.log()).masked_fill(~batch.mask, torch.nan))
    found = weights(batch, now)
    assert found[0].tolist() == pytest.approx([0.75] * 5)
    assert found[1, :4].tolist() == pytest.approx([2.0] * 4)
    assert found[2:].tolist() == [[1.0] * 5] * 2


@pytest.mark.degenerate
def test_an_impossible_answer_has_a_finite_weight_and_unknown_log_probs_are_refused(paper):
    batch, now = paper
    odd = replace(batch, sampler_logp=batch.sampler_logp.clone())
    odd.sampler_logp[0, 0] = -torch.inf
    assert weights(odd, now, torch.inf)[0, 0].item() == pytest.approx(485165195.4, abs=1)  # exp(20)
    with pytest.raises(ValueError, match=r"credit\.sequence_importance found no sampler log-prob on 14 tokens"):
        weights(replace(batch, sampler_logp=batch.sampler_logp * torch.nan), now)


def test_a_ceiling_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"sequence_importance\.ceiling=0"):
        SequenceImportance(0)
