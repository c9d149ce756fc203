from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from isentropic.algorithm.credit import CreditRule
from isentropic.algorithm.penalty import Penalty
from isentropic.algorithm.trace import trace
from isentropic.batch import Vitals

OPEN = ["algorithm=stare_c2", "algorithm.control.target=1.2", "algorithm.credit.stare.top=0.25"]
VITALS = Vitals(1.007143, 0.0)


@pytest.mark.identity
@pytest.mark.parametrize("overrides", [["algorithm=dapo"], OPEN, [*OPEN, "algorithm/penalty=[entropy_bonus]"]])
def test_a_trace_ends_in_the_loss_and_gradient_of_a_step(build, charge, paper, overrides):
    loss, gradient, metrics, credit = charge(build(*overrides), *paper)
    seen = trace(build(*overrides), *paper, VITALS)
    assert seen.loss == loss
    assert torch.equal(seen.tokens["gradient"], gradient)
    assert torch.equal(seen.credit.advantages, credit.advantages) and torch.equal(seen.credit.mask, credit.mask)
    for side in ("low", "high", "ceiling"):
        assert seen.metrics[f"clipping/clipped_{side}"] == metrics[f"clipping/clipped_{side}"]


@pytest.mark.golden
def test_each_token_s_way_to_its_gradient_is_told(build, paper):
    seen = trace(build(*OPEN), *paper, VITALS)
    column = {name: values[2, 0].item() for name, values in seen.tokens.items()}
    expected = {"advantage": 0.866024, "weight stare": 1.1, "weight": 1.1, "credit": 0.952626, "ratio": 1.111111}
    expected |= {"low": 0.8, "high": 1.28, "ceiling": 10, "gradient": -0.075605, "kept": 1, "kl_weight": 0}
    assert {name: column[name] for name in expected} == pytest.approx(expected, abs=2e-6)
    assert seen.rules["stare"]["scaled"] == 4 and seen.rules["stare"]["largest weight"] == pytest.approx(1.1)
    assert seen.rules["stare"]["share of negative_surprising"] == 1
    assert [side for side, tokens in seen.clipped.items() if tokens[1, 3]] == ["ceiling"]
    assert [name for name, tokens in seen.quadrants.items() if tokens[1, 3]] == ["negative_surprising"]


def test_what_each_part_reads_is_found_by_running_it(build, paper):
    overrides = [*OPEN, "algorithm/credit=[truncated_importance,stare]", "algorithm/penalty=[entropy_bonus]"]
    assert trace(build(*overrides), *paper, VITALS).reads == {
        "advantage": {"batch.mask", "batch.reward", "batch.group"},
        "credit truncated_importance": {"batch.sampler_logp", "batch.old_logp"},
        "credit stare": {"now.logp", "drive.up", "drive.up_blamed"},
        "clipping": set(),
        "penalty entropy_bonus": {"now.entropy", "drive.up", "drive.down"},
    }


@dataclass(frozen=True)
class OfRows(CreditRule):
    """Cuts its batch, which reads nothing, and then reads one field of the part."""

    def __call__(self, credit, now, batch, drive):
        return credit.drop(torch.cat([batch[:2].truncated, batch[2:].truncated])[:, None] & credit.mask)


@pytest.mark.parametrize("scope", ["step", "rank", "micro_batch"])
def test_a_cut_batch_still_says_what_was_read_of_it(build, paper, scope):
    algorithm = replace(build("algorithm=grpo", f"algorithm.scope={scope}"), credit={"rows": OfRows()})
    batch, now = paper
    seen = trace(algorithm, replace(batch, truncated=batch.correct), now, VITALS)
    assert seen.reads["credit rows"] == {"batch.truncated"}
    assert seen.rules["rows"]["dropped"] == 8 and seen.rules["rows"]["scaled"] == 0


@dataclass(frozen=True)
class Curious(Penalty):
    follows_drive: ClassVar[bool] = False

    def __call__(self, credit, now, batch, drive):
        return now.entropy * 0.1


def test_reading_what_an_update_does_not_know_is_refused(build, paper):
    algorithm = replace(build("algorithm=grpo"), penalty={"curious": Curious()})
    with pytest.raises(ValueError, match=r"penalty curious reads now\.entropy, which an update does not know"):
        trace(algorithm, *paper, VITALS)
