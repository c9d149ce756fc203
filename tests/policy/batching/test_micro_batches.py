import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isentropic.policy.batching.micro_batches import fewest_parts, longest_first, micro_batches

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=20)
COUNT, TOKENS = st.one_of(st.none(), st.integers(1, 8)), st.one_of(st.none(), st.integers(1, 100))


def mask_of(lengths, prompt=2):
    return (torch.arange(prompt + max(lengths)) >= prompt) & (
        torch.arange(prompt + max(lengths)) < prompt + torch.tensor(lengths)[:, None]
    )


@given(LENGTHS, COUNT, TOKENS)
def test_every_row_goes_through_once_and_within_the_limits(lengths, count, tokens):
    mask = mask_of(lengths)
    batches = micro_batches(mask, count, tokens, packed=False)
    assert sorted(r for b in batches for r in b.rows.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert batch.real and batch.packed is None and (count is None or len(batch.rows) <= count)
        assert not mask[batch.rows, batch.width :].any()
        assert tokens is None or len(batch.rows) == 1 or len(batch.rows) * batch.width <= tokens


def test_rows_of_like_length_share_a_rectangle():
    batches = micro_batches(mask_of([9, 1, 9, 1]), 2, None, packed=False)
    assert [b.width for b in batches] == [11, 3]


@pytest.mark.parametrize("packed", [False, True])
def test_a_batch_without_any_chosen_token_is_still_a_batch(packed):
    batches = micro_batches(torch.zeros(3, 6, dtype=torch.bool), 2, None, packed)
    assert sum(len(b.rows) for b in batches) == 3 and all(b.width == 2 for b in batches)


@given(LENGTHS, COUNT, TOKENS)
def test_lines_hold_every_row_once_and_only_a_row_alone_is_longer_than_the_limit(lengths, count, tokens):
    mask = mask_of(lengths)
    batches = micro_batches(mask, count, tokens, packed=True)
    assert sorted(r for b in batches for r in b.rows.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert batch.real and (count is None or len(batch.rows) <= count)
        held = len(batch.packed.row)
        assert held == sum(lengths[r] + 1 for r in batch.rows)  # prompt and answer but for the last token
        assert tokens is None or len(batch.rows) == 1 or held <= tokens


@given(st.lists(st.integers(2, 30), min_size=1, max_size=20), st.integers(30, 200))
def test_lines_are_no_more_than_needed(widths, tokens):
    number = fewest_parts(widths, None, tokens, 1)
    least = -(-sum(width - 1 for width in widths) // tokens)
    fuller = [
        sum(widths[r] - 1 for r in part)
        for part in longest_first([width - 1 for width in widths], None, max(number - 1, 1))
    ]
    assert number == least or max(fuller) > tokens


@given(st.lists(st.integers(2, 30), min_size=1, max_size=20), st.integers(1, 6))
def test_no_line_is_longer_than_another_by_more_than_its_shortest_row(widths, number):
    parts = longest_first([width - 1 for width in widths], None, number)
    held = [sum(widths[r] - 1 for r in part) for part in parts]
    for part, tokens in zip(parts, held, strict=True):
        assert len(part) < 2 or tokens - min(widths[r] - 1 for r in part) <= min(held)


@given(LENGTHS, st.integers(1, 8))
def test_more_lines_are_to_be_had_where_another_rank_needs_them(lengths, wanted):
    number = fewest_parts([length + 2 for length in lengths], None, 40, wanted)
    assert number >= wanted
