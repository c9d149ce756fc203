"""Rows that are asked for in pieces: of a row of so many tokens, ask gives one after the other."""

import pytest

from isentropic.sampler import Completion, seed_after
from isentropic.sampler.ends import Ends
from isentropic.sampler.vllm import asking
from isentropic.sampler.vllm.sampling_params import Row

ENDS = Ends(frozenset({1}))
ROWS = [Row([2, 3], 100, True, limit) for limit in (600, 10, 256, 257)]


def ask(row):
    """Writes 5 as long as it may."""
    return Completion([5] * row.limit, [-0.5] * row.limit, "length")


def test_pieces_follow_each_other_until_the_row_is_full():
    done, asked = {}, []

    def noted(row):
        asked.append(row)
        return ask(row)

    assert asking.until(ROWS[:1], noted, ENDS, done.__setitem__, lambda: False, 4) == {}
    assert done[0] == Completion([5] * 600, [-0.5] * 600, "length")
    assert [(len(row.prompt), row.seed, row.limit) for row in asked] == [
        (2, 100, 256), (258, seed_after(100, 256), 256), (514, seed_after(100, 512), 88),
    ]  # fmt: skip


def test_an_end_within_a_piece_ends_the_row():
    done = {}
    asking.until(ROWS[:1], lambda row: Completion([5, 1], [-0.5] * 2, "stop"), ENDS, done.__setitem__, lambda: False, 4)
    assert done[0] == Completion([5, 1], [-0.5] * 2, "stop")


def test_what_is_halted_has_the_pieces_so_far():
    done = {}
    pieces = asking.until(ROWS, ask, ENDS, done.__setitem__, lambda: 1 in done, 1)
    assert done.keys() >= {0, 1} and not done.keys() & pieces.keys()
    assert all(len(piece.tokens) == len(piece.logp) for piece in pieces.values())
    halted = asking.until(ROWS[3:], ask, ENDS, done.__setitem__, lambda: True, 1)
    assert halted == {} or len(halted[0].tokens) == len(halted[0].logp) == 256


def test_an_error_of_asking_is_raised():
    def fails(row):
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        asking.until(ROWS, fails, ENDS, lambda *_: None, lambda: False, 2)
