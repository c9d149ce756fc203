from dataclasses import fields

import pytest
import torch

from isentropic.algorithm.advantage.grpo import Grpo
from isentropic.batch import RolloutBatch, ScoredBatch
from isentropic.reductions import totals
from isentropic.rollout.curation.void_turns import VoidTurns


@pytest.mark.golden
def test_a_void_answer_leaves_the_loss_and_stays_in_its_group():
    reward, mask = torch.tensor([1.0, 0, 1, 0]), torch.ones(4, 3).bool()
    group = torch.zeros(4, dtype=torch.long)
    void = torch.tensor([False, True, False, False])
    batch = RolloutBatch(mask.long(), mask, group, reward, reward > 0, reward > 1, mask * 0.0, void=void)
    kept = VoidTurns()(batch)
    assert kept.mask.sum(-1).tolist() == [3, 0, 3, 3] and len(kept.group) == 4
    nothing = torch.zeros(4, 3)
    rollout = {f.name: getattr(kept, f.name) for f in fields(RolloutBatch)}
    names = ("old_logp", "old_entropy", "old_sensitivity", "ref_logp")
    advantages = Grpo(divide_by_std=True)(ScoredBatch(**rollout, **dict.fromkeys(names, nothing)))
    assert torch.allclose(advantages[[0, 2, 3], 0], torch.tensor([0.866024, 0.866024, -0.866024]), atol=1e-5)
    assert not advantages[1].any()
    assert (int(totals(batch.mask).tokens), int(totals(kept.mask).tokens)) == (12, 9)


def test_answers_without_a_void_turn_stay_as_they_are():
    mask = torch.ones(2, 3).bool()
    zero = torch.zeros(2)
    batch = RolloutBatch(mask.long(), mask, zero.long(), zero, zero > 0, zero > 0, mask * 0.0)
    assert torch.equal(VoidTurns()(batch).mask, mask)
