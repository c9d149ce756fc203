import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.distributed import gather
from isentropic.reductions import (
    group_centred,
    group_mean,
    group_score,
    group_size,
    group_sum,
    masked_max,
    masked_mean,
    masked_std,
    quantile,
    row_mean,
    share,
    top_fraction,
    totals,
)

patient = settings(deadline=None, max_examples=60)
NUMBERS = st.floats(-100, 100, width=32)


@st.composite
def tables(draw, values=NUMBERS):
    """Values, a mask, and the same values with garbage outside of it."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    x = torch.tensor(draw(st.lists(values, min_size=rows * columns, max_size=rows * columns)))
    mask = torch.tensor(draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns)))
    x, mask = x.view(rows, columns), mask.view(rows, columns)
    garbage = draw(st.sampled_from([math.nan, math.inf, -math.inf, 1e30]))
    return x, mask, torch.where(mask, x, garbage)


@st.composite
def groups(draw, values=NUMBERS):
    n = draw(st.integers(1, 12))
    x = torch.tensor(draw(st.lists(values, min_size=n, max_size=n)))
    return x, torch.tensor(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))


@patient
@given(tables(), st.floats(0.01, 1))
def test_top_fraction_takes_the_largest_and_what_equals_the_least_of_them(table, fraction):
    x, mask, dirty = table
    taken = top_fraction(dirty, mask, fraction)
    n = int(mask.sum())
    k = min(n, max(1, int(n * fraction + 0.999999))) if n else 0
    assert not (taken & ~mask).any()
    assert taken.sum() >= k
    if k:
        ranked = sorted(x[mask].tolist(), reverse=True)
        assert sorted(x[taken].tolist(), reverse=True) == [v for v in ranked if v >= ranked[k - 1]]


@pytest.mark.parametrize("n, k", [(0, 0), (1, 1), (6, 1), (8, 1), (10, 1), (11, 2), (20, 2), (30, 3), (1000, 100)])
def test_the_number_taken_is_a_ceiling(n, k):
    x = torch.arange(1200.0)[None]
    assert top_fraction(x, x < n, 0.1).sum() == k
    assert n == 0 or k == max(1, math.ceil(Fraction(n, 10)))


def test_nothing_is_taken_of_nothing_or_with_a_fraction_of_zero():
    x = torch.ones(2, 3)
    assert not top_fraction(x, x < 0, 0.5).any()
    assert not top_fraction(x, x > 0, 0.0).any()


def test_equals_are_taken_together():
    x = torch.ones(2, 3)
    assert top_fraction(x, x > 0, 0.1).all()


def test_infinite_surprisal_comes_first_and_nan_never():
    x = torch.tensor([[math.inf, 1.0, math.nan, 2.0, math.nan]])
    assert top_fraction(x, x == x, 0.1).tolist() == top_fraction(x, torch.ones_like(x) > 0, 0.1).tolist()
    assert top_fraction(x, torch.ones_like(x) > 0, 0.1).tolist() == [[True, False, False, False, False]]
    assert not top_fraction(x * math.nan, torch.ones_like(x) > 0, 0.1).any()


def test_selection_compares_in_the_dtype_of_the_values():
    x = torch.tensor([[0.1, 0.2, 0.3]], dtype=torch.float64) / 3
    assert top_fraction(x, x > 0, 0.3).tolist() == [[False, False, True]]


@patient
@given(tables())
def test_means_do_not_see_what_is_masked(table):
    x, mask, dirty = table
    mean = masked_mean(dirty, mask)
    torch.testing.assert_close(mean, x[mask].mean(), equal_nan=True, atol=1e-4, rtol=1e-5)
    for row, values, kept in zip(row_mean(dirty, mask), x, mask, strict=True):
        expected = values[kept].mean() if kept.any() else torch.tensor(0.0)
        torch.testing.assert_close(row, expected, atol=1e-4, rtol=1e-5)


@patient
@given(tables(), st.floats(0, 1), st.sampled_from(["linear", "lower", "higher", "nearest"]))
def test_quantiles_are_those_of_torch(table, q, interpolation):
    x, mask, dirty = (t.double() if t.is_floating_point() else t for t in table)
    found = quantile(dirty, mask, q, interpolation)
    if mask.any():
        expected = torch.quantile(x[mask], q, interpolation=interpolation)
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)
    else:
        assert found.isnan()


@pytest.mark.parametrize(
    "interpolation, expected", [("linear", 2.15), ("lower", 1.8), ("higher", 2.5), ("nearest", 2.5)]
)
def test_a_quantile_between_two_values(interpolation, expected):
    x = torch.tensor([[2.5, math.nan, 0.05], [9, 1.8, math.inf]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True], [False, True, False]])
    assert quantile(x, mask, 0.75, interpolation).item() == pytest.approx(expected, abs=1e-12)


@patient
@given(NUMBERS, st.integers(1, 12), st.floats(0, 1))
def test_quantiles_and_spread_of_equal_values_are_exact(value, n, q):
    x = torch.full((n,), value)
    assert quantile(x, x == x, q, "linear") == x[0]
    assert masked_mean(x, x == x) == x[0]
    assert masked_std(x, x == x, unbiased=False) == 0


def test_a_quantile_of_more_values_than_torch_takes():
    x = torch.zeros(2**24 + 2)
    x[-1] = 1
    assert quantile(x, x >= 0, 1.0, "linear") == 1
    with pytest.raises(RuntimeError, match="too large"):
        torch.quantile(x, 1.0)


@patient
@given(tables(), st.booleans())
def test_the_standard_deviation_is_that_of_torch(table, unbiased):
    x, mask, dirty = table
    found, values = masked_std(dirty, mask, unbiased), x[mask].double()
    if len(values) == 1:
        assert found == 0
    else:
        expected = values.std(unbiased=unbiased).float() if len(values) else torch.tensor(math.nan)
        torch.testing.assert_close(found, expected, equal_nan=True, atol=1e-4, rtol=1e-4)


@patient
@given(tables())
def test_the_largest_does_not_see_what_is_masked_nor_nan(table):
    x, mask, dirty = table
    expected = x[mask].max() if mask.any() else torch.tensor(-math.inf)
    assert masked_max(dirty, mask) == expected
    dirty = torch.cat([dirty, torch.full_like(dirty, math.nan)])
    assert masked_max(dirty, torch.cat([mask, mask])) == expected


def test_the_largest_of_no_rows_is_minus_infinity():
    assert masked_max(torch.ones(0, 3), torch.ones(0, 3) > 0) == -math.inf


@patient
@given(tables())
def test_totals_count_tokens_and_the_rows_that_have_any_and_are_never_zero(table):
    mask = table[1]
    counted = totals(mask)
    assert counted.tokens == max(1, mask.sum())
    assert counted.sequences == max(1, sum(row.any() for row in mask))
    assert share(mask, counted) == (1 if mask.any() else 0)


@patient
@given(groups())
def test_group_means_are_those_of_their_rows(given_groups):
    x, group = given_groups
    for i in range(len(x)):
        torch.testing.assert_close(group_mean(x, group)[i], x[group == group[i]].mean(), atol=1e-4, rtol=1e-5)


@patient
@given(groups(st.integers(-100, 100).map(float)))
def test_scores_are_those_of_torch(given_groups):
    x, group = given_groups
    for g in group.unique():
        values = x[group == g]
        spread = len(values.unique()) > 1
        expected = (values - values.mean()) / (values.std() + 1e-6) if spread else torch.zeros_like(values)
        torch.testing.assert_close(group_score(x, group)[group == g], expected, atol=1e-4, rtol=1e-4)


@patient
@given(groups(st.integers(-100, 100).map(float)), st.sampled_from([0.25, 2.0, 16.0]))
def test_scores_do_not_depend_on_the_scale_of_rewards(given_groups, scale):
    x, group = given_groups
    torch.testing.assert_close(group_score(x * scale + 8, group), group_score(x, group), atol=1e-3, rtol=1e-3)


@patient
@given(groups(st.integers(-100, 100).map(float)), st.randoms(use_true_random=False))
def test_groups_do_not_depend_on_the_order_of_rows_nor_on_their_numbers(given_groups, random):
    x, group = given_groups
    order = torch.tensor(random.sample(range(len(x)), len(x)))
    names = torch.tensor(random.sample(range(-50, 50), 4))
    for function in group_sum, group_mean, group_centred, group_score:
        torch.testing.assert_close(
            function(x[order], names[group[order]]), function(x, group)[order], atol=1e-5, rtol=1e-5
        )
    assert torch.equal(group_size(names[group[order]]), group_size(group)[order])


@patient
@given(tables(), st.randoms(use_true_random=False))
def test_sums_of_tables_over_groups_are_those_of_their_columns(table, random):
    x, _, _ = table
    group = torch.tensor([random.randrange(3) for _ in x])
    expected = torch.stack([group_sum(column, group) for column in x.T], 1)
    torch.testing.assert_close(group_sum(x, group), expected)


@patient
@given(tables(), st.floats(0.01, 1), st.randoms(use_true_random=False))
def test_selections_and_statistics_do_not_depend_on_the_order_of_rows(table, share, random):
    x, mask, dirty = table
    order = torch.tensor(random.sample(range(len(x)), len(x)))
    assert torch.equal(top_fraction(dirty[order], mask[order], share), top_fraction(dirty, mask, share)[order])
    exact = [lambda *t: quantile(*t, share, "linear"), masked_max]
    for function in *exact, masked_mean, lambda *t: masked_std(*t, unbiased=True):
        found, expected = function(dirty[order], mask[order]), function(dirty, mask)
        torch.testing.assert_close(found, expected, equal_nan=True, atol=1e-5, rtol=1e-5)


@patient
@given(NUMBERS, st.integers(1, 12))
def test_equal_values_have_exactly_no_distance(value, n):
    x, group = torch.full((n,), value), torch.zeros(n, dtype=torch.long)
    assert torch.equal(group_centred(x, group), torch.zeros(n))
    assert torch.equal(group_score(x, group), torch.zeros(n))


def test_alone_gather_returns_what_it_is_given():
    x = torch.arange(3.0)
    assert gather(x) is x


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_gpu_selects_and_groups_as_a_cpu_does(share):
    x = torch.randint(-500, 500, (64, 512), generator=torch.Generator().manual_seed(0)) / 100
    x[3, :40] = math.nan
    mask, group = x > -4, torch.arange(64) // 8
    there, on = x.cuda(), mask.cuda()
    assert torch.equal(top_fraction(there, on, share).cpu(), top_fraction(x, mask, share))
    torch.testing.assert_close(quantile(there, on, share, "linear").cpu(), quantile(x, mask, share, "linear"))
    assert masked_max(there, on).item() == masked_max(x, mask).item()
    score = group_score(there[:, 100], group.cuda()).cpu()
    torch.testing.assert_close(score, group_score(x[:, 100], group), atol=1e-6, rtol=1e-6)
