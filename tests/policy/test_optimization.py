from dataclasses import replace

import torch

from isentropic.policy.optimization import Optimization

SETTINGS = Optimization(
    lr=1e-4, weight_decay=0.1, beta1=0.9, beta2=0.99, warmup_steps=0, max_grad_norm=1.0, mini_batch=8, micro_batch=4,
    max_tokens_per_micro_batch=None, max_tokens_no_grad=None, sharded_gradients=False, reshard_after_forward=True,
    balance=False,
)  # fmt: skip


def test_a_resumed_run_obeys_its_settings_not_the_checkpoint_s():
    def settings(**changes):
        return replace(SETTINGS, warmup_steps=4, **changes)

    weight = torch.nn.Parameter(torch.ones(3))
    optimizer, schedule = settings(lr=1e-4).build(iter([weight]))
    for _ in range(2):
        weight.grad = torch.ones(3)
        optimizer.step()
        schedule.step()
    saved = optimizer.state_dict(), schedule.state_dict()
    other = settings(lr=1e-3, weight_decay=0.5, beta2=0.9)
    again, later = other.build(iter([weight]))
    again.load_state_dict(saved[0])
    later.load_state_dict(saved[1])
    other.obey(again, later)
    (group,) = again.param_groups
    assert (group["lr"], group["weight_decay"], group["betas"][1]) == (1e-3 * (3 / 5), 0.5, 0.9)
    later.step()
    assert again.param_groups[0]["lr"] == 1e-3 * (4 / 5)
    same, on = settings(lr=1e-4).build(iter([weight]))
    same.load_state_dict(saved[0])
    on.load_state_dict(saved[1])
    settings(lr=1e-4).obey(same, on)
    assert same.state_dict()["param_groups"] == saved[0]["param_groups"]
