from dataclasses import replace

import torch

from isentropic.policy.optimization import Optimization
from isentropic.policy.schedule import Cosine

SETTINGS = Optimization(
    lr=1e-4, weight_decay=0.1, beta1=0.9, beta2=0.99, warmup_steps=0, warmup_ratio=0.0, max_grad_norm=1.0,
    mini_batch=8, micro_batch=4, max_tokens_per_micro_batch=None, max_tokens_no_grad=None, sharded_gradients=False,
    reshard_after_forward=True, balance=False,
)  # fmt: skip
SCHEDULE, STEPS = Cosine(final=0.1), 10


def built(**changes):
    settings = replace(SETTINGS, warmup_steps=4, **changes)

    def factor(step):
        return settings.factor(step, STEPS, SCHEDULE)

    return settings, factor, *settings.build(iter([torch.nn.Parameter(torch.ones(3))]), factor)


def resumed(saved, **changes):
    settings, factor, optimizer, schedule = built(**changes)
    optimizer.load_state_dict(saved[0])
    schedule.load_state_dict(saved[1])
    settings.obey(optimizer, schedule, factor(schedule.last_epoch))
    return optimizer, schedule


def stepped(optimizer, schedule, times):
    for _ in range(times):
        optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
        optimizer.step()
        schedule.step()
    return optimizer.state_dict(), schedule.state_dict()


def test_a_resumed_run_obeys_its_settings_not_the_checkpoint_s():
    saved = stepped(*built()[2:], 2)
    optimizer, schedule = resumed(saved, lr=1e-3, weight_decay=0.5, beta2=0.9)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["weight_decay"], group["betas"][1]) == (1e-3 * (3 / 5), 0.5, 0.9)
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 1e-3 * (4 / 5)
    assert resumed(saved)[0].state_dict()["param_groups"] == saved[0]["param_groups"]


def test_a_resumed_schedule_has_the_rates_of_one_that_was_never_stopped():
    whole, parts = built()[2:], resumed(stepped(*built()[2:], 6))
    assert stepped(*whole, 8)[0]["param_groups"] == stepped(*parts, 2)[0]["param_groups"]
    assert parts[0].param_groups[0]["lr"] == 1e-4 * SCHEDULE(4, 6)


def test_a_warm_up_is_a_number_or_a_share_of_the_steps_and_the_schedule_begins_where_it_ends():
    def rates(steps, **settings):
        return [replace(SETTINGS, **settings).factor(step, steps, SCHEDULE) for step in range(steps + 1)]

    found = rates(STEPS, warmup_steps=4)
    assert found == [1 / 5, 2 / 5, 3 / 5, 4 / 5, *(SCHEDULE(step, 6) for step in range(7))]
    assert found == rates(STEPS, warmup_ratio=0.4) == rates(STEPS, warmup_ratio=0.31)  # rounded up
    assert rates(3, warmup_steps=3)[-1] == 1.0  # a warm-up as long as the run leaves nothing to fall
