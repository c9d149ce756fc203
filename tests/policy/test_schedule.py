import pytest
import torch
from transformers import get_scheduler

from isentropic.policy.schedule import Constant, Cosine, Linear, WarmupStableDecay

STEPS, WARMUP = 20, 4


def rates(schedule, steps=STEPS):
    return [schedule(step, steps) for step in range(steps + 1)]


@pytest.mark.golden
def test_each_schedule_by_hand():
    assert rates(Constant(), 4) == [1.0] * 5
    assert rates(Linear(final=0.0), 4) == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert rates(Linear(final=0.5), 4) == [1.0, 0.875, 0.75, 0.625, 0.5]
    assert rates(Cosine(final=0.5), 2) == pytest.approx([1.0, 0.75, 0.5])
    assert rates(WarmupStableDecay(final=0.0, decay=0.5), 4) == [1.0, 1.0, 1.0, 0.5, 0.0]
    assert rates(WarmupStableDecay(final=0.2, decay=0.0), 2) == [1.0, 1.0, 1.0]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("schedule", "name", "more"),
    [
        (Constant(), "constant_with_warmup", {}),
        (Linear(final=0.0), "linear", {}),
        (Cosine(final=0.0), "cosine", {}),
        (Cosine(final=0.1), "cosine_with_min_lr", {"min_lr_rate": 0.1}),
        (WarmupStableDecay(final=0.1, decay=0.25), "warmup_stable_decay", {"num_decay_steps": 4, "min_lr_ratio": 0.1}),
    ],
)
def test_after_the_warm_up_the_curves_are_those_of_transformers(schedule, name, more):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    more = more | ({"decay_type": "linear"} if name == "warmup_stable_decay" else {})
    theirs = get_scheduler(name, optimizer, WARMUP, STEPS, scheduler_specific_kwargs=more)
    factors = [theirs.lr_lambdas[0](step) for step in range(STEPS + 1)]
    assert rates(schedule, STEPS - WARMUP) == pytest.approx(factors[WARMUP:], abs=1e-12)


@pytest.mark.parity
def test_linear_is_torch_s_linear_lr():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.25, total_iters=STEPS)
    found = []
    for _ in range(STEPS + 1):
        found += theirs.get_last_lr()
        optimizer.step()
        theirs.step()
    assert rates(Linear(final=0.25)) == pytest.approx(found)


@pytest.mark.parametrize("wrong", [-0.1, 1.5])
def test_what_is_no_share_is_refused(wrong):
    for made in (Linear, Cosine):
        with pytest.raises(ValueError, match="is a share"):
            made(final=wrong)
    with pytest.raises(ValueError, match=r"schedule.decay=.* is a share"):
        WarmupStableDecay(final=0.0, decay=wrong)
