from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.clip_v import ClipV
from isentropic.policy.model.logprobs import entropy, sensitivity

GRPO = "algorithm=grpo", "algorithm/aggregation=token_mean"


@pytest.fixture
def steep(paper):
    """D of one token of a good answer and of three blamed ones; zero elsewhere, garbage in the padding."""
    batch, now = paper
    fall = torch.zeros_like(now.logp)
    fall[0, 0], fall[1, 0], fall[1, 1], fall[3, 1] = 9, 8, 3, 4
    return batch, replace(now, sensitivity=torch.where(batch.mask, -fall, -torch.inf))


def dropped(build, charge, paper, mu, most):
    settings = f"algorithm.credit.clip_v.mu={mu}", f"algorithm.credit.clip_v.most={most}"
    _, _, _, credit = charge(build("algorithm=clip_v", *settings), *paper)
    return (paper[0].mask & ~credit.mask).nonzero().tolist()


@pytest.mark.golden
def test_the_definition_is_minus_the_sensitivity():
    logits = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)).double().log_softmax(-1)
    chosen, h = logits[:, 0], entropy(logits)
    each = logits.exp() * (logits + h[:, None])  # S of every token of the vocabulary
    torch.testing.assert_close(-sensitivity(logits, chosen, h), (logits.exp() * each).sum(-1) - each[:, 0])


@pytest.mark.golden
@pytest.mark.parametrize(
    "mu, most, expected",
    [
        # The 14 values add up to 24 and their squares to 170: their deviation is 3.034.
        (0.9, 1, [[1, 0], [1, 1], [3, 1]]),
        (1.0, 1, [[1, 0], [3, 1]]),
        (1.4, 1, [[1, 0]]),
        (2.7, 1, []),
        (0.9, 2 / 14, [[1, 0], [3, 1]]),
        (0.9, 0.0001, [[1, 0]]),
    ],
)
def test_blamed_tokens_beyond_some_deviations_the_largest_first(build, charge, steep, mu, most, expected):
    assert dropped(build, charge, steep, mu, most) == expected


@pytest.mark.identity
def test_without_any_it_is_grpo_over_tokens(build, charge, steep):
    base = charge(build(*GRPO), *steep)
    found = charge(build("algorithm=clip_v"), *steep)
    assert found[0] == base[0]
    assert torch.equal(found[1], base[1])


@pytest.mark.degenerate
@pytest.mark.parametrize("value", [0.1, -0.1, 0.0, torch.nan])
def test_of_tokens_that_are_all_alike_or_unknown_none_is_left_out(build, charge, paper, value):
    batch, now = paper
    even = replace(now, sensitivity=torch.full_like(now.logp, value))
    assert dropped(build, charge, (batch, even), 0, 1) == []


@pytest.mark.parametrize("mu, most, named", [(-1, 0.1, "mu=-1"), (2, 1.5, "most=1.5"), (2, -0.1, "most=-0.1")])
def test_settings_that_make_no_sense_are_refused(mu, most, named):
    with pytest.raises(ValueError, match=f"credit.clip_v.{named}"):
        ClipV(mu, most)
