"""Three ranks whose rows are unequally long: what each has to read once groups have moved."""

from dataclasses import fields
from pathlib import Path

import pytest
import torch

from isentropic.policy.batching.balance import balanced
from isentropic.rollout.collate import concatenate

SCRIPT = Path(__file__).with_name("balancing_ranks.py")
MOVED = {"one step": 1, "four steps": 4, "other widths": 2}
LEFT = "a step begins within a group", "fewer groups here", "none here", "unequal groups", "a group divided"


@pytest.fixture(scope="module")
def ranks(script):
    return script(SCRIPT)


@pytest.fixture(scope="module")
def after(ranks, forks, tmp_path_factory):
    """By rank, then by case."""
    folder = tmp_path_factory.mktemp("balancing")
    for rank in forks(SCRIPT, *(([folder, rank], {}) for rank in range(ranks.RANKS))):
        assert rank.returncode == 0, rank.stderr
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(ranks.RANKS)]


@pytest.fixture
def before(ranks):
    return [ranks.cases(rank) for rank in range(ranks.RANKS)]


def in_order(batch):
    """Rows by the token they begin with, which no two share; padding is not looked at."""
    rows = batch[batch.tokens[:, 0].argsort()]
    return {f.name: getattr(rows, f.name) for f in fields(rows)} | {
        "tokens": rows.tokens * rows.mask,
        "sampler_logp": torch.where(rows.mask, rows.sampler_logp, 0),
    }


@pytest.mark.parametrize("name", MOVED)
def test_every_row_is_somewhere_once_as_it_was(before, after, name):
    torch.testing.assert_close(
        in_order(concatenate([one[name] for one in after])),
        in_order(concatenate([one[name][0] for one in before])),
        atol=0,
        rtol=0,
    )


@pytest.mark.parametrize("name", MOVED)
def test_groups_stay_whole_and_in_their_optimizer_step(before, after, ranks, name):
    def steps(batches):
        """The groups of each step, over all ranks."""
        cut = [batch.group.tensor_split(MOVED[name]) for batch in batches]
        return [torch.cat(parts).sort().values.tolist() for parts in zip(*cut, strict=True)]

    assert steps([one[name] for one in after]) == steps([one[name][0] for one in before])
    for one in after:
        assert one[name].group.view(-1, ranks.ANSWERS).float().std(1).max() == 0


@pytest.mark.parametrize(("name", "most"), [("one step", 1.01), ("four steps", 1.05), ("other widths", 1.05)])
def test_no_rank_has_much_more_to_read_than_another(before, after, name, most):
    def unequal(batches):
        """The longest share in units of the mean, in the worst step."""
        columns = [torch.arange(1, batch.mask.shape[1] + 1) for batch in batches]
        lengths = [(batch.mask * column).amax(-1) for batch, column in zip(batches, columns, strict=True)]
        held = torch.tensor([[part.sum() for part in one.tensor_split(MOVED[name])] for one in lengths]).double()
        return (held.amax(0) / held.mean(0)).max()

    assert unequal([one[name][0] for one in before]) > 1.3
    assert unequal([one[name] for one in after]) < most


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_shared_equally_stays(before, after, name):
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(vars(other[name]), vars(one[name][0]), atol=0, rtol=0)


def test_one_rank_keeps_its_batch(ranks):
    batch = ranks.batch_of(0)
    assert balanced(batch, 1) is batch
