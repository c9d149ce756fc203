from dataclasses import replace

import pytest

from isentropic.planning.duration import concurrency, duration, forward, rollout, sync, wire
from isentropic.planning.memory import GIB


def test_a_rollout_by_hand(small):
    """Four answers of ten tokens together: ten steps, each of which reads all weights and what came before."""
    n, work = small.model.parameters, small.work()
    seconds = rollout(small.model, work, small.card(), GIB, prompts=2, answers=4, longest=10)
    prefill = 2 * n * 2 * 6 / 1e12
    weights = 10 * 2 * n / 1e11
    keys = 4 * (6 * 10 + 100 / 2) * small.model.cache(2) / 1e11
    assert seconds == pytest.approx(prefill + weights + keys)
    own = rollout(small.model, work, small.card(step=1.0, sequence=0.5), GIB, prompts=2, answers=4, longest=10)
    assert own - seconds == pytest.approx(10 * 1.0 + 4 * 10 * 0.5)


def test_answers_written_at_one_time_are_limited_by_engine_and_cache(small):
    work = small.work()
    assert concurrency(small.model, work, GIB, 100, 10) == 8
    assert concurrency(small.model, work, GIB, 4, 10) == 4
    held = 6 + 100 / (2 * 10)
    assert concurrency(small.model, work, 3 * held * small.model.cache(2), 100, 10) == pytest.approx(3)
    assert concurrency(small.model, small.work(engine=None), GIB, 100, 10) == 0


def test_reading_by_hand(small):
    """Where products are all, two operations per weight and padded token, attention, and the head for answers alone."""
    model, work = small.model, small.work()
    parts = work.parts(4)
    body = 2 * 2 * model.products * 4 * 16 + 4 * model.attention(16)
    head = 2 * model.head * 4 * 10
    seconds = forward(model, work, small.card(bandwidth=1e30), parts)
    assert seconds == pytest.approx((body + head) / 1e12)
    assert forward(model, work, small.card(launch=1.0), parts) == len(parts) * model.layers


def test_a_collective_takes_links_in_a_node_and_the_network_beyond(small):
    card = small.card()
    assert wire(small.work(), card, 1e9) == 0
    assert wire(small.work(shards=2), card, 1e9) == 0.5
    assert wire(small.work(shards=16), card, 1e9) == pytest.approx(1e9 * 15 / 16 / 1e8)


def test_weights_are_sent_and_put_to_sleep(small):
    n, card = small.model.parameters, small.card(tensor=1.0)
    assert sync(small.model, small.work(), card) == small.model.tensors + 2 * n / 1e9
    awake = replace(small.work().engine, sleeps=False)
    assert sync(small.model, small.work(engine=awake), card) == small.model.tensors
    assert sync(small.model, small.work(engine=None), card) == 0


def test_a_run_is_its_start_its_steps_and_its_evaluations(small):
    work, card = small.work(), small.card(start=5.0)
    took = duration(small.model, work, card, GIB)
    assert took.step == pytest.approx(sum(took.phases.values()))
    assert took.run(work, card) == pytest.approx(5 + 3 * took.step + 2 * took.evaluation)
    assert took.model_flops == 6 * small.model.parameters * 4 * 16


@pytest.mark.parametrize(
    ("more", "phase"),
    [
        ({"checkpointing": True}, "update"),
        ({"updates": 4, "micro_batch": 1}, "update"),
        ({"longest": 14}, "update"),
        ({"longest": 14}, "rollout"),
        ({"prompts_asked": 20}, "rollout"),
        ({"reference": True}, "old log-probs"),
        ({"shards": 4}, "weight sync"),
    ],
)
def test_more_to_do_takes_longer(small, more, phase):
    less, longer = (duration(small.model, small.work(**new), small.card(), GIB) for new in ({}, more))
    assert longer.phases[phase] > less.phases[phase]


def test_rules_that_read_again_cost_a_pass_each(small):
    took = duration(small.model, small.work(rereads=3), small.card(), GIB)
    once = duration(small.model, small.work(rereads=1), small.card(), GIB)
    assert took.phases["reading again"] == pytest.approx(3 * once.phases["reading again"])
    assert "reading again" not in duration(small.model, small.work(), small.card(), GIB).phases
