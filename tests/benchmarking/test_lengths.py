"""Lengths of answers: half of them up to 10 tokens, the others up to 50, of which the last tenth has 50."""

from statistics import mean, median

import pytest

from isentropic.benchmarking.lengths import MixedLengths, mixed
from isentropic.config.entry import CONFIGS

TABLE = str(CONFIGS.parent / "assets/lengths.yaml")
LENGTHS = MixedLengths(((0.0, 2.0), (0.5, 10.0), (0.9, 50.0), (1.0, 50.0)), 50)


def test_between_two_quantiles_lengths_lie_evenly():
    assert [LENGTHS.at(share) for share in (0.0, 0.25, 0.5, 0.7, 0.9, 0.95, 1.0)] == [2, 6, 10, 30, 50, 50, 50]
    assert LENGTHS.mean == pytest.approx(0.5 * 6 + 0.4 * 30 + 0.1 * 50)


def test_they_are_scaled_to_the_longest():
    small = MixedLengths(LENGTHS.quantiles, 5)
    assert [small.at(share) for share in (0.0, 0.5, 0.7, 1.0)] == [1, 1, 3, 5]
    assert small.mean == pytest.approx(LENGTHS.mean / 10)


def test_a_seed_has_one_length_and_many_have_the_distribution():
    drawn = [LENGTHS(seed) for seed in range(4000)]
    assert drawn == [LENGTHS(seed) for seed in range(4000)]
    assert mean(drawn) == pytest.approx(LENGTHS.mean, rel=0.05)
    assert sum(tokens == 50 for tokens in drawn) / 4000 == pytest.approx(0.1, abs=0.02)


def test_long_reasoning_has_a_median_of_3_k_and_ends_at_16_k():
    lengths = mixed("long_cot", TABLE, 16384)
    assert median(lengths(seed) for seed in range(2001)) == pytest.approx(3000, rel=0.1)
    assert max(lengths(seed) for seed in range(2001)) == 16384
    assert lengths.mean == pytest.approx(4173.5, abs=0.5)


def test_what_are_no_quantiles_is_refused():
    with pytest.raises(ValueError, match=r"benchmark\.lengths=short is not known; known are long_cot, or null"):
        mixed("short", TABLE, 10)
    for wrong in ((), ((0.0, 2.0), (0.5, 3.0)), ((0.0, 2.0), (1.0, 1.0)), ((0.0, 0.0), (1.0, 1.0))):
        with pytest.raises(ValueError, match="shares rise from 0 to 1"):
            MixedLengths(wrong, 10)
