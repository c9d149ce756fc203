"""The loop over micro-batches."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Waits(TorchDispatchMode):
    """Operators whose outcome Python reads, or whose size is known on the device alone: each would stop a GPU."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator.overloadpacket.__name__
        indices = args[1] if name.startswith(("index", "_index_put")) and isinstance(args[1], list | tuple) else ()
        by_mask = any(index is not None and index.dtype == torch.bool for index in indices)
        if by_mask or name in ("_local_scalar_dense", "nonzero", "masked_select", "repeat_interleave", "_unique2"):
            self.seen.append(name)
        return operator(*args, **(kwargs or {}))


def algorithm(ratio, clipping, aggregation, penalty):
    from isentropic.algorithm.advantage.grpo import Grpo
    from isentropic.algorithm.algorithm import Algorithm
    from isentropic.algorithm.control.constant import Constant

    control = Constant(up=1.0, down=0.0)
    return Algorithm(control, Grpo(divide_by_std=True), {}, ratio, clipping, penalty, aggregation, "step")


def plain():
    from isentropic.algorithm.aggregation.token_mean import TokenMean
    from isentropic.algorithm.clipping.fixed import Fixed
    from isentropic.algorithm.ratio.token import TokenRatio

    return algorithm(TokenRatio(), Fixed(0.2, 0.28, 10.0), TokenMean(), {})


def elaborate():
    from isentropic.algorithm.aggregation.sequence_mean import SequenceMean
    from isentropic.algorithm.clipping.gmpo import Gmpo
    from isentropic.algorithm.penalty.entropy_bonus import EntropyBonus
    from isentropic.algorithm.ratio.geometric import GeometricRatio

    return algorithm(GeometricRatio(), Gmpo(0.4, 0.4), SequenceMean(), {"entropy_bonus": EntropyBonus(0.01)})


@pytest.mark.parametrize("parts, once", [(plain, True), (plain, False), (elaborate, False)])
def test_between_micro_batches_nothing_waits_for_the_device(tiny_model, rollout, parts, once):
    from isentropic.batch import Drive, TokenStats
    from isentropic.policy.batching.micro_batches import micro_batches
    from isentropic.policy.model.language_model import LanguageModel, ModelSettings
    from isentropic.policy.update import Update, scored

    model = LanguageModel(ModelSettings(tiny_model, "bfloat16", 64, True, "none", False))
    before = TokenStats(*(torch.zeros(rollout.mask.shape) for _ in range(3)))
    micros, waits = micro_batches(rollout.mask, 3, None, packed=True), Waits()
    update = Update(model, parts(), 1.0, False, once, torch.Tensor.backward)
    with waits:
        batch = scored(rollout, before, before.logp)
        update(batch, torch.ones(rollout.mask.shape), before, Drive(1.0, 0.0), micros)
    assert len(micros) == 3 and not waits.seen
    assert any(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize(
    "read", [torch.Tensor.item, bool, float, torch.nonzero, lambda x: x[x > 0], lambda x: torch.ones(1)[x > 0]]
)
def test_what_would_wait_is_seen(read):
    waits = Waits()
    with waits:
        read(torch.tensor([1.0]))
    assert waits.seen
