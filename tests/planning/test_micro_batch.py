from dataclasses import replace

import pytest

from isentropic.planning.memory import GIB, memory
from isentropic.planning.micro_batch import SHARE, TOKENS, tokens_for, with_micro_batch

LEFT_OPEN = {"packed": True, "micro_batch": None, "max_tokens_per_micro_batch": None, "rows": 8192, "updates": 1}


def peak(small, work, card, tokens):
    return memory(small.model, replace(work, max_tokens_per_micro_batch=tokens), card).peak("update")


def test_as_many_tokens_as_the_card_has_room_for_are_chosen_and_never_more(small):
    work = small.work(**LEFT_OPEN)
    needed = {tokens: peak(small, work, small.card(), tokens) / SHARE / GIB for tokens in TOKENS}
    assert sorted(needed.values(), reverse=True) == list(needed.values())
    for tokens in TOKENS:
        enough = small.card(memory=2 + 1.001 * needed[tokens])  # 2 GiB are beside tensors
        assert tokens_for(small.model, work, enough) == tokens
    assert tokens_for(small.model, work, small.card(memory=2.0)) == TOKENS[-1]


def test_what_others_hold_of_the_card_is_left_to_them(small):
    work, card = small.work(**LEFT_OPEN), small.card()
    assert tokens_for(small.model, work, card, free=10 * GIB) == TOKENS[0]
    assert tokens_for(small.model, work, card, free=2.01 * GIB) == TOKENS[-1]


def test_an_engine_that_does_not_sleep_keeps_its_share(small):
    awake = replace(small.work().engine, sleep_level=0, cache=None, share=0.79)
    assert tokens_for(small.model, small.work(**LEFT_OPEN, engine=awake), small.card()) < TOKENS[0]
    assert tokens_for(small.model, small.work(**LEFT_OPEN), small.card()) == TOKENS[0]


@pytest.mark.parametrize("given", [{"micro_batch": 2}, {"max_tokens_per_micro_batch": 100}])
def test_what_is_set_stays(small, given):
    work = small.work(**(LEFT_OPEN | given))
    assert with_micro_batch(small.model, work, small.card()) == (work, [])


def test_a_plan_says_what_the_card_chose(small):
    work, said = with_micro_batch(small.model, small.work(**LEFT_OPEN), small.card())
    assert work.max_tokens_per_micro_batch == TOKENS[0]
    assert said == [f"policy.optimization.max_tokens_per_micro_batch={TOKENS[0]}, as card has room for it"]
