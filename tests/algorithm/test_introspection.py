from dataclasses import dataclass, replace
from inspect import isfunction

import torch

from isentropic import distributed, reductions
from isentropic.algorithm.clipping import Clipping, PpoBounds
from isentropic.algorithm.introspection import describe_parts, is_collective, recorded
from isentropic.batch import Vitals


def test_what_ends_in_a_collective_is_told_from_what_does_not():
    found = {name for name, f in (vars(distributed) | vars(reductions)).items() if isfunction(f) and is_collective(f)}
    assert found >= {
        "gather",
        "masked_mean",
        "masked_std",
        "masked_max",
        "top_fraction",
        "quantile",
        "totals",
        "average",
    }
    assert found.isdisjoint({"row_mean", "group_mean", "group_score", "group_sum", "share"})


def test_calls_are_noted_and_parts_are_left_as_they_were(build, paper):
    from isentropic.algorithm.credit import stare

    batch, now = paper
    algorithm, before = build("algorithm=stare"), stare.top_fraction
    with recorded() as calls:
        algorithm.assign(algorithm.advantage(batch), now, batch, algorithm.control.update(Vitals(0.1, 0.0)))
    assert calls == {"top_fraction"}
    assert stare.top_fraction is before


def test_what_follows_the_controller_and_what_has_gradient(build, paper):
    found = describe_parts(build("algorithm=stare", "algorithm/penalty=[entropy_bonus]"), *paper)
    assert found.follows == {"credit stare", "penalty entropy_bonus"}
    assert found.gradient == {"now.logp", "now.entropy"}
    assert found.reads == {"batch.reward", "batch.group", "batch.mask", "now.logp", "now.entropy"}
    assert found.reductions == {"top_fraction"}


def test_what_is_inert_while_ratios_are_one_does_act_later(build, paper):
    assert describe_parts(build("algorithm=dapo"), *paper).inert == {"clipping"}
    assert "credit stare" not in describe_parts(build("algorithm=stare"), *paper).inert
    open_wide = ["algorithm.clipping.low=1", "algorithm.clipping.high=inf", "algorithm.clipping.ceiling=inf"]
    assert describe_parts(build("algorithm=dapo", *open_wide), *paper).inert == set()


def test_the_controller_is_left_as_it_was(build, paper):
    algorithm = build("algorithm=stare_adaptive")
    before = algorithm.control.state_dict()
    describe_parts(algorithm, *paper)
    assert algorithm.control.state_dict() == before


@dataclass(frozen=True)
class Leaking(Clipping):
    """Its limit carries gradient."""

    def __call__(self, now, batch, drive):
        return PpoBounds(0.8, 1.2 + 0 * now.logp, 10.0)


def test_a_limit_that_carries_gradient_is_found(build, paper):
    algorithm = replace(build("algorithm=dapo"), clipping=Leaking())
    assert describe_parts(algorithm, *paper).gradient == {"now.logp", "bounds.high"}
    assert torch.is_grad_enabled()
