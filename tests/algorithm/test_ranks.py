"""One process group for all recipes: 2 and 4 ranks take the step that 1 takes, even where some have no token."""

import sys
from pathlib import Path

import pytest
import torch
from fixtures.models import unchecked

from isentropic.reductions import masked_max, masked_mean, masked_std, quantile, top_fraction

pytestmark = pytest.mark.slow

RECIPES = sorted(path.stem for path in (Path(__file__).parents[2] / "configs/algorithm").glob("*.yaml"))
KINDS = ["mixed", "uneven", "certain", "all right", "one answer", "no token"]
SCRIPT = Path(__file__).with_name("ranks.py")


@pytest.fixture(scope="module")
def ranks(bigrams, script):
    """The module that each of the processes runs."""
    sys.modules["bigrams"] = bigrams
    return script(SCRIPT)


@pytest.fixture(scope="module")
def algorithms(bigrams, build):
    return {recipe: build(f"algorithm={recipe}", *bigrams.ACTING.get(recipe, [])) for recipe in RECIPES}


@pytest.fixture(scope="module")
def found(algorithms, forks, tmp_path_factory):
    """What 2 and 4 ranks found: by world, then by kind of batch and recipe."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.save(algorithms, folder / "algorithms.pt")
    for rank in forks(SCRIPT, *(([folder, rank], {}) for rank in range(4)), limit=600):
        assert rank.returncode == 0, rank.stderr
    return {world: torch.load(folder / f"{world}.pt") for world in (2, 4)}


@pytest.mark.invariance
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_do_not_matter(recipe, algorithms, found, ranks, bigrams, kind):
    policy, batch = ranks.batches()[kind]
    with unchecked():
        expected = bigrams.step(algorithms[recipe], policy, batch, 5)
    assert expected.isfinite().all()
    for world in 2, 4:
        bigrams.close(found[world][kind, recipe], expected)


@pytest.mark.invariance
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", [2, 4])
def test_statistics_are_of_all_ranks(found, ranks, kind, world):
    _, batch = ranks.batches()[kind]
    x, mask = ranks.values(batch)
    seen = found[world][kind, "arithmetic"]
    assert torch.equal(seen["gathered"], x[mask])
    expected = [masked_mean(x, mask), masked_std(x, mask, True), masked_std(x, mask, False)]
    torch.testing.assert_close(seen["moments"], torch.stack(expected), equal_nan=True)
    exact = [masked_max(x, mask), *[quantile(x, mask, q, how) for q, how in ranks.QUANTILES]]
    torch.testing.assert_close(seen["exact"], torch.stack(exact), atol=0, rtol=0, equal_nan=True)
    assert torch.equal(seen["top"], torch.stack([top_fraction(x, mask, fraction) for fraction in ranks.FRACTIONS]))
    assert seen["totals"].tolist() == [max(1, mask.sum()), max(1, mask.any(-1).sum())]
    assert seen["largest"] == max(mask[rows].sum() for rows in ranks.rows_of(batch, world))


@pytest.mark.invariance
@pytest.mark.parametrize("world", [2, 4])
def test_alone_a_rank_sees_its_own(found, ranks, world):
    _, batch = ranks.batches()["mixed"]
    x, mask = ranks.values(batch)
    own = [masked_mean(x[rows], mask[rows]) for rows in ranks.rows_of(batch, world)]
    torch.testing.assert_close(found[world]["mixed", "arithmetic"]["alone"], torch.stack(own))
