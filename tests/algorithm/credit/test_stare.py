from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.advantage.grpo import Grpo
from isentropic.algorithm.credit.stare import Stare
from isentropic.types import Credit, Drive


@pytest.fixture
def credit(paper):
    batch, _ = paper
    return Credit.initial(Grpo(divide_by_std=True)(batch), batch.mask)


def weights(rule, credit, paper, up=1.0):
    batch, now = paper
    scaled = rule(credit, now, batch, Drive(up=up))
    assert torch.equal(scaled.mask, credit.mask)
    return torch.where(credit.mask, scaled.advantages / credit.advantages, 1)


@pytest.mark.parametrize(
    "top, damp, boosted, damped, mean",
    [
        (0.10, 1.0, [[2, 2]], [], 1.007143),
        (0.10, 0.9, [[2, 2]], [[1, 3]], 1),
        (0.25, 1.0, [[2, 0], [2, 2]], [], 1.014286),
        (0.25, 0.9, [[2, 0], [2, 2]], [[1, 1], [1, 3]], 1),
    ],
)
def test_the_most_surprising_tokens_of_either_side(credit, paper, top, damp, boosted, damped, mean):
    found = weights(Stare(top, boost=1.1, damp=damp), credit, paper)
    assert (found > 1.05).nonzero().tolist() == boosted  # padding, had it been ranked, would have come first
    assert (found < 0.95).nonzero().tolist() == damped
    assert found[credit.mask].mean().item() == pytest.approx(mean, abs=1e-6)


def test_weights_follow_the_drive(credit, paper):
    rule = Stare(top=0.25, boost=1.1, damp=0.9)
    for up, boost, damp in ((0, 1, 1), (0.9, 1.09, 0.91), (1, 1.1, 0.9), (5, 1.5, 0.5), (20, 3, 0)):
        found = weights(rule, credit, paper, float(up))
        assert found[2, 0].item() == pytest.approx(boost, abs=1e-12)
        assert found[1, 1].item() == pytest.approx(damp, abs=1e-12)


def test_the_papers_adaptive_weights_from_its_recipe(build, credit, paper):
    from isentropic.types import Vitals

    algorithm = build("algorithm=stare_adaptive", "algorithm.credit.stare.top=0.25")
    seen = []
    for entropy in 0.5, 0.29, 0.30, float("nan"), 0.10, *[0.1] * 60:
        drive = algorithm.control.update(Vitals(entropy, 0.0))
        found = weights(algorithm.credit["stare"], credit, paper, drive.up)
        seen.append((round(found[2, 0].item(), 9), round(found[1, 1].item(), 9)))
    assert seen[:5] == [(1, 1), (1.10, 0.90), (1, 1), (1, 1), (1.11, 0.89)]
    assert seen[-1] == (1.5, 0.5)


def test_tokens_without_advantage_are_no_candidates(credit, paper):
    silent = replace(credit, advantages=torch.where(torch.arange(4)[:, None] == 2, 0, credit.advantages))
    found = weights(
        Stare(top=0.1, boost=1.1, damp=1.0), replace(silent, mask=silent.mask & (silent.advantages != 0)), paper
    )
    assert (found > 1.05).nonzero().tolist() == [[0, 1]]


def test_dropped_tokens_are_no_candidates(credit, paper):
    surprising = torch.zeros_like(credit.mask)
    surprising[2, 2] = True
    found = weights(Stare(top=0.1, boost=1.1, damp=1.0), credit.drop(surprising), paper)
    assert (found > 1.05).nonzero().tolist() == [[2, 0]]


def test_an_impossible_token_comes_first_and_one_that_is_no_number_never(credit, paper):
    batch, now = paper
    logp = now.logp.clone()
    logp[0, 0], logp[2, 2] = -torch.inf, torch.nan
    found = weights(Stare(top=0.1, boost=1.1, damp=1.0), credit, (batch, replace(now, logp=logp)))
    assert (found > 1.05).nonzero().tolist() == [[0, 0]]


def test_equally_surprising_tokens_count_the_same(credit, paper):
    batch, now = paper
    even = (batch, replace(now, logp=torch.zeros_like(now.logp)))
    found = weights(Stare(top=0.1, boost=1.1, damp=0.9), credit, even)
    torch.testing.assert_close(found[[0, 2]][credit.mask[[0, 2]]], torch.full((8,), 1.1, dtype=torch.float64))
    torch.testing.assert_close(found[[1, 3]][credit.mask[[1, 3]]], torch.full((6,), 0.9, dtype=torch.float64))


@pytest.mark.parametrize(
    "top, boost, damp, named", [(1.5, 1.1, 1, "top"), (0.1, -1, 1, "boost"), (0.1, 1.1, -0.1, "damp")]
)
def test_settings_that_make_no_sense_are_refused(top, boost, damp, named):
    with pytest.raises(ValueError, match=f"credit.stare.*{named}"):
        Stare(top, boost, damp)
