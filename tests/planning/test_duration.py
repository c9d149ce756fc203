from dataclasses import replace

import pytest

from isentropic.planning.activations import layer
from isentropic.planning.duration import READING, backward, beside, duration, forward, sync, wire
from isentropic.planning.lengths import Lengths
from isentropic.planning.memory import GIB
from isentropic.planning.workload import Adapter


def test_reading_by_hand(small):
    """Where products are all, two operations per weight and padded token, attention, and the head for answers alone."""
    model, work = small.model, small.work()
    parts = work.micro_batches(4)
    body = 2 * 2 * model.products * 4 * 16 + 4 * model.attention(16)
    head = 2 * model.head * 4 * 10
    seconds = forward(model, work, small.card(bandwidth=1e30), parts)
    assert seconds == pytest.approx((body + head) / 1e12)
    launched = forward(model, work, small.card(bandwidth=1e30, launch=1.0), parts)
    assert launched == pytest.approx(len(parts) * model.layers + head / 1e12)


def test_what_goes_through_memory_by_hand(small):
    """Weights to bf16 and out again, what a layer keeps as often as the card says, and the logits."""
    model, work = small.model, small.work()
    seconds = forward(model, work, small.card(flops=1e30), work.micro_batches(4))
    moved = 6 * model.parameters + 2 * layer(model, work) * 4 * 16 + READING * 1000 * 4 * 10
    assert seconds == pytest.approx(moved / 1e11)


def test_packed_rows_have_no_padding(small):
    lengths = Lengths(prompt=6, share=0.5, kept=1.0)
    padded, packed = (small.work(lengths=lengths, packed=packed, micro_batch=4) for packed in (False, True))
    (part,) = packed.micro_batches(4)
    assert (padded.tokens(part), packed.tokens(part)) == (4 * part[0], sum(part) - 4)
    less, more = (backward(small.model, work, small.card(), [part]) for work in (packed, padded))
    assert less < more


def test_a_collective_takes_links_in_a_node_and_the_network_beyond(small):
    card = small.card()
    assert wire(small.work(), card, 1e9) == 0
    assert wire(small.work(shards=2), card, 1e9) == 0.5
    assert wire(small.work(shards=16), card, 1e9) == pytest.approx(1e9 * 15 / 16 / 1e8)


def test_a_collective_takes_from_products_what_links_would_and_a_slower_network_is_waited_for(small):
    work, card = small.work(shards=16), small.card()
    assert beside(work, card, 1.0, 0.0) == 1.0
    assert beside(work, small.card(gpus=16), 1.0, 1e9) == pytest.approx(1 + 15 / 16)
    assert beside(work, card, 1.0, 1e6) == pytest.approx(1 + 15 / 16 / 1000), "of which the network's .009 are hidden"
    assert beside(work, card, 1.0, 1e9) == pytest.approx(1e9 * 15 / 16 / 1e8)


def test_weights_that_stay_gathered_are_gathered_once_for_all_micro_batches(small):
    slow, parts = small.card(links=1.0), [[10, 10]] * 3
    for seconds, each in ((forward, 1), (backward, 2)):
        anew, once = (
            seconds(small.model, small.work(shards=2, sharded_gradients=False, reshard_after_forward=way), slow, parts)
            for way in (True, False)
        )
        gathers = (anew - once) / (small.model.parameters * 2 / 2)
        assert gathers == pytest.approx(3 * each - 1, rel=1e-6)


def test_a_narrow_model_comes_to_less_of_a_card(small):
    parts = [[10, 10]]
    as_wide, narrow = (
        forward(small.model, small.work(size=4), small.card(bandwidth=1e30, narrow=width), parts) for width in (10, 40)
    )
    assert narrow == pytest.approx(2 * as_wide), "a quarter of that width, so half of the rates"
    assert small.card(narrow=10).utilization(100) == 1.0


def test_weights_are_sent_and_put_to_sleep(small):
    n, card = small.model.parameters, small.card(tensor=1.0)
    assert sync(small.model, small.work(), card) == small.model.tensors + 2 * n / 1e9
    assert duration(small.model, small.work(), card, GIB).phases["sleep"] == 2 * n / 1e9
    dropped = small.work(engine=replace(small.work().engine, sleep_level=2))
    assert "sleep" not in duration(small.model, dropped, card, GIB).phases
    assert sync(small.model, dropped, card) == small.model.tensors
    awake = replace(small.work().engine, sleep_level=0)
    assert sync(small.model, small.work(engine=awake), card) == small.model.tensors
    assert sync(small.model, small.work(engine=None), card) == 0


def test_a_sync_has_a_time_of_its_own_and_turns_for_other_ranks(small):
    awake = replace(small.work().engine, sleep_level=0)
    card = small.card(sync=3.0, tensor_sharded=2.0, gpus=4, links=1e30, network=1e30)
    alone, two, four, eight = (
        sync(small.model, small.work(engine=awake, shards=shards), card) for shards in (1, 2, 4, 8)
    )
    tensors = small.model.tensors
    assert alone == 3 and two == 3 + 2 * tensors and four == 3 + 6 * tensors == eight


def test_a_run_is_its_start_its_steps_and_its_evaluations(small):
    work, card = small.work(), small.card(start=5.0)
    took = duration(small.model, work, card, GIB)
    assert took.step == pytest.approx(sum(took.phases.values()))
    assert took.run(work, card) == pytest.approx(5 + 3 * took.step + 2 * took.evaluation)
    assert took.model_flops == 6 * small.model.parameters * 4 * 16


@pytest.mark.parametrize(
    ("more", "phase"),
    [
        ({"checkpointing": "full"}, "update"),
        ({"checkpointing": "selective"}, "update"),
        ({"logits_chunk": 1}, "update"),
        ({"updates": 4, "micro_batch": 1}, "update"),
        ({"max_tokens": 14}, "update"),
        ({"max_tokens": 14}, "rollout"),
        ({"prompts_asked": 20}, "rollout"),
        ({"reference": True}, "old log-probs"),
        ({"shards": 4}, "weight sync"),
    ],
)
def test_more_to_do_takes_longer(small, more, phase):
    less, longer = (duration(small.model, small.work(**new), small.card(), GIB) for new in ({}, more))
    assert longer.phases[phase] > less.phases[phase]


def test_rules_that_read_again_cost_a_pass_each(small):
    took = duration(small.model, small.work(logp_recomputations=3), small.card(), GIB)
    once = duration(small.model, small.work(logp_recomputations=1), small.card(), GIB)
    assert took.phases["recomputed log-probs"] == pytest.approx(3 * once.phases["recomputed log-probs"])
    assert "recomputed log-probs" not in duration(small.model, small.work(), small.card(), GIB).phases


def test_settings_that_save_time_save_it(small):
    slow = duration(small.model, small.work(), small.card(), GIB)
    assert "old log-probs" not in duration(small.model, small.work(reuse_update_forward=True), small.card(), GIB).phases
    for faster in ({"compiled": True}, {"adapter": Adapter(1, ("q_proj",), 2)}):
        assert duration(small.model, small.work(**faster), small.card(), GIB).phases["update"] < slow.phases["update"]


def test_answers_are_judged_by_processes_or_at_once(small):
    card = small.card(verify=3.0)
    assert duration(small.model, small.work(verifiers=2), card, GIB).phases["verification"] == 4 * 3 / 2
    assert "verification" not in duration(small.model, small.work(verifiers=None), card, GIB).phases


def test_a_rollout_that_is_drawn_ahead_hides_behind_the_update_or_it_behind_the_rollout(small):
    took = duration(small.model, small.work(one_step_off_policy=True), small.card(), GIB)
    both = took.phases["rollout"], took.phases["update"] + took.phases["old log-probs"]
    assert took.hidden == pytest.approx(min(both))
    others = sum(took.phases[name] for name in ("sleep", "weight sync"))
    assert took.step == pytest.approx(max(both) + others)
