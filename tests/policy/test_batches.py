import torch
from hypothesis import given
from hypothesis import strategies as st

from isentropic.policy.batches import micro_batches


def mask_of(lengths, prompt=2):
    return (torch.arange(prompt + max(lengths)) >= prompt) & (
        torch.arange(prompt + max(lengths)) < prompt + torch.tensor(lengths)[:, None]
    )


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=20),
    st.integers(1, 8),
    st.one_of(st.none(), st.integers(1, 100)),
)
def test_every_row_goes_through_once_and_within_the_limits(lengths, count, tokens):
    mask = mask_of(lengths)
    batches = micro_batches(mask, count, tokens)
    assert sorted(r for b in batches for r in b.rows.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert batch.real and len(batch.rows) <= count
        assert not mask[batch.rows, batch.width :].any()
        assert tokens is None or len(batch.rows) == 1 or len(batch.rows) * batch.width <= tokens


def test_rows_of_like_length_share_a_batch():
    batches = micro_batches(mask_of([9, 1, 9, 1]), 2, None)
    assert [b.width for b in batches] == [11, 3]


def test_a_batch_without_any_chosen_token_is_still_a_batch():
    batches = micro_batches(torch.zeros(3, 6, dtype=torch.bool), 2, None)
    assert sum(len(b.rows) for b in batches) == 3 and all(b.width == 2 for b in batches)
