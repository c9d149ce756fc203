from dataclasses import replace

import pytest

from isentropic.planning.decoding import concurrent_answers, per_token, rollout
from isentropic.planning.duration import duration
from isentropic.planning.memory import GIB


def test_a_rollout_by_hand(small):
    """Four answers of ten tokens together: ten steps, each of which reads all weights and what came before."""
    n, work = small.model.parameters, small.work()
    seconds = rollout(small.model, work, small.card(), GIB, prompts=2, answers=4, longest=10)
    prefill = 2 * n * 2 * 6 / 1e12
    weights = 10 * 2 * n / 1e11
    keys = 4 * (6 * 10 + 100 / 2) * small.model.cache(2) / 1e11
    assert seconds == pytest.approx(prefill + weights + keys)
    own = rollout(small.model, work, small.card(step=1.0, sequence=0.5, detokenize=0.25), GIB, 2, answers=4, longest=10)
    assert own - seconds == pytest.approx(10 * 1.0 + 4 * 10 * (0.5 + 0.25))


def test_a_token_costs_more_by_the_plain_way_and_where_its_log_prob_is_told(small):
    card, engine = small.card(sequence=1.0, sequence_default=3.0, logprob=0.5), small.work().engine
    engines = [replace(engine, fast_decode=s, returns_logprobs=t) for s in (True, False) for t in (False, True)]
    assert [per_token(one, card) for one in engines] == [1.0, 1.5, 3.0, 3.5]


def test_answers_written_at_one_time_are_limited_by_engine_and_cache(small):
    work = small.work()
    assert concurrent_answers(small.model, work, GIB, 100, 10) == 8
    assert concurrent_answers(small.model, work, GIB, 4, 10) == 4
    held = 6 + 100 / (2 * 10)
    assert concurrent_answers(small.model, work, 3 * held * small.model.cache(2), 100, 10) == pytest.approx(3)
    assert concurrent_answers(small.model, small.work(engine=None), GIB, 100, 10) == 0


def test_ranks_that_share_an_engine_fill_it_together(small):
    """Each rank's 4 answers, and each card's room for 3: the plan's own figure and its advice say the same."""
    engine = replace(small.work().engine, ranks=2)
    held = 6 + 100 / (2 * 10)
    for apart in (False, True):
        work = small.work(ranks=2, engine=replace(engine, is_remote=apart))
        assert concurrent_answers(small.model, work, GIB, 3, 10) == 6
        assert concurrent_answers(small.model, work, 3 * held * small.model.cache(2), 4, 10) == pytest.approx(6)
        assert duration(small.model, work, small.card(), 3 * held * small.model.cache(2)).sequences == pytest.approx(6)


def test_a_server_answers_all_ranks_with_all_its_cards(small):
    """Two ranks ask a server of two cards: as much for each as for a rank and its engine."""
    engine = small.work().engine
    alone = rollout(small.model, small.work(), small.card(), GIB, prompts=2, answers=4, longest=10)
    work = small.work(ranks=2, engine=replace(engine, is_remote=True, ranks=2))
    served = rollout(small.model, work, small.card(), GIB, prompts=2, answers=4, longest=10)
    weights = 10 * 2 * small.model.parameters / 1e11
    assert served == pytest.approx(alone - weights / 2), "weights are read once for all"
    assert work.gpus_of_run == 4
