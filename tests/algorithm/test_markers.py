"""What parts say of themselves is true: who follows the drive, who reads what. Any part with a config is tried.

A marker that says too little hides a part from the warnings and leaves what it reads unread; one that says too much
pays for what nobody uses.
"""

from dataclasses import replace
from math import nan
from pathlib import Path

import pytest
import torch

from isentropic.batch import Credit, Drive, Vitals

CONFIGS = Path(__file__).parents[2] / "configs/algorithm"
SEAMS = "credit", "clipping", "penalty"
PARTS = [(seam, path.stem) for seam in SEAMS for path in sorted((CONFIGS / seam).glob("*.yaml"))]
DRIVES = Drive(), Drive(1, 1), Drive(1, 0), Drive(0, 1), Drive(0.5, 0.25)
# At their defaults these do nothing to a fixture of fourteen tokens.
ACTING = {
    "clip_b": ["algorithm.credit.clip_b.mu=0.5"],
    "clip_v": ["algorithm.credit.clip_v.mu=0"],
    "entro_pic": ["algorithm.credit.entro_pic.threshold=0.5"],
    "sequence_mask": ["algorithm.credit.sequence_mask.high=1.2"],
}


@pytest.fixture
def fixture(paper):
    """The paper's, by a sampler that disagrees, next to a reference that differs; credit of both signs, some tied."""
    batch, now = paper
    torch.manual_seed(0)
    sampler, ref = (batch.old_logp + torch.randn(4, 5, dtype=torch.float64) * 0.5 for _ in range(2))
    batch = replace(batch, sampler_logp=sampler, ref_logp=ref, old_sensitivity=ref)
    advantages = torch.where(batch.reward > 0, 1.0, -1.0).double()[:, None] * batch.mask
    return batch, replace(now, sensitivity=ref), Credit.initial(advantages, batch.mask).add_kl(batch.mask, 0.5)


@pytest.fixture
def part(build):
    def chosen(seam, name):
        listed = f"algorithm/{seam}={name}" if seam == "clipping" else f"algorithm/{seam}=[{name}]"
        made = getattr(build(listed, *ACTING.get(name, [])), seam)
        return made if seam == "clipping" else made[name]

    return chosen


def outcome(part, seam, batch, now, credit, drive=Drive(1, 0.5)):  # noqa: B008
    """Everything that a part decides, as one row of numbers."""
    if seam == "credit":
        found = part(credit, now, batch, drive)
        values = [torch.where(found.mask, found.advantages, 0), found.mask.double(), found.kl_weight]
    elif seam == "penalty":
        values = [part(credit, now, batch, drive)]
    else:
        bounds = part(now, batch, drive)
        ratios = [torch.full_like(now.logp, r) for r in (0.1, 0.5, 0.7, 0.9, 1.0, 1.1, 1.3, 1.5, 3.0, 20.0)]
        values = [bounds.surrogate(r, credit) for r in ratios]
        values += [side.double() for r in ratios for side in bounds.clipped(r, credit).values()]
    return torch.cat([torch.where(batch.mask, value, 0).flatten() for value in values])


def differs(part, seam, fixture, **changes):
    """Whether the part's outcome changes with fields of the batch or of the reading."""
    batch, now, credit = fixture
    others = replace(batch, **changes.get("batch", {})), replace(now, **changes.get("now", {})), credit
    return not torch.equal(outcome(part, seam, *fixture), outcome(part, seam, *others))


@pytest.mark.parametrize("name", [name for seam, name in PARTS if seam == "credit"])
def test_a_rule_does_something_to_the_fixture_so_that_the_others_here_say_something(part, fixture, name):
    batch, now, credit = fixture
    found = part("credit", name)(credit, now, batch, Drive(1, 0.5))
    changed = (
        (found.advantages != credit.advantages) | (found.mask != credit.mask) | (found.kl_weight != credit.kl_weight)
    )
    assert (changed & batch.mask).any(), f"give {name} settings at which it acts, in ACTING"


@pytest.mark.parametrize("seam, name", PARTS)
def test_a_part_follows_the_drive_exactly_if_it_says_so(part, fixture, seam, name):
    made = part(seam, name)
    outcomes = [outcome(made, seam, *fixture, drive) for drive in DRIVES]
    assert any(not torch.equal(one, outcomes[0]) for one in outcomes) == made.follows_drive


@pytest.mark.parametrize("seam, name", PARTS)
def test_a_part_reads_the_sampler_exactly_if_it_says_so(part, fixture, seam, name):
    made = part(seam, name)
    changed = {"sampler_logp": fixture[0].old_logp}
    assert differs(made, seam, fixture, batch=changed) == (seam == "credit" and made.corrects_sampler)


@pytest.mark.parametrize("seam, name", PARTS)
def test_a_part_reads_the_reference_exactly_if_it_says_so(part, fixture, seam, name):
    made = part(seam, name)
    changed = {"ref_logp": fixture[0].ref_logp - 0.3}
    assert differs(made, seam, fixture, batch=changed) == (seam == "penalty" and made.needs_reference)


@pytest.mark.parametrize("name", [name for seam, name in PARTS if seam == "penalty"])
def test_a_penalty_reads_entropy_now_and_the_anchor_exactly_if_it_says_so(part, fixture, name):
    made, (batch, now, credit) = part("penalty", name), fixture
    assert differs(made, "penalty", fixture, now={"entropy": now.entropy + 0.1}) == made.needs_entropy
    untied = outcome(made, "penalty", batch, now, replace(credit, kl_weight=credit.kl_weight * 0))
    assert (not torch.equal(outcome(made, "penalty", *fixture), untied)) == made.reads_kl_weight


@pytest.mark.parametrize("name", [name for seam, name in PARTS if seam == "clipping"])
def test_clipping_needs_no_entropy_of_now(part, fixture, name):
    assert not differs(part("clipping", name), "clipping", fixture, now={"entropy": fixture[1].entropy * torch.nan})


@pytest.mark.parametrize("name", [name for seam, name in PARTS if seam == "credit"])
def test_a_rule_ties_tokens_exactly_if_it_says_so(part, fixture, name):
    batch, now, credit = fixture
    made = part("credit", name)
    anchors = [made(credit, now, batch, drive).kl_weight for drive in DRIVES]
    assert any(not torch.equal(anchor, credit.kl_weight) for anchor in anchors) == made.adds_kl


@pytest.mark.parametrize("name", [path.stem for path in sorted((CONFIGS / "control").glob("*.yaml"))])
def test_a_controller_changes_its_drive_exactly_if_it_says_so(build, name):
    control = build(f"algorithm/control={name}").control
    readings = [Vitals(entropy, step / 40) for step, entropy in enumerate([2.0] * 20 + [0.05] * 20)]
    drives = [control.update(vitals) for vitals in readings]
    assert any(drive != drives[0] for drive in drives) == control.changes


@pytest.mark.parametrize("name", [path.stem for path in sorted((CONFIGS / "control").glob("*.yaml"))])
def test_a_controller_reads_the_entropy_exactly_if_it_says_so(build, name):
    def drives(*entropies):
        control = build(f"algorithm/control={name}").control
        return control, [control.update(Vitals(entropy, step / 40)) for step, entropy in enumerate(entropies)]

    (control, falling), (_, steady), (_, unread) = (
        drives(*e) for e in ([2.0] * 20 + [0.05] * 20, [2.0] * 40, [nan] * 40)
    )
    assert (falling != steady) == control.reads_policy
    assert control.reads_policy or falling == unread


@pytest.mark.parametrize("name", [path.stem for path in sorted((CONFIGS / "advantage").glob("*.yaml"))])
def test_an_advantage_reads_the_policy_exactly_if_it_says_so(build, fixture, name):
    batch, *_ = fixture
    made, unread = build(f"algorithm/advantage={name}").advantage, torch.full_like(batch.old_logp, torch.nan)
    poisoned = replace(batch, old_logp=unread, old_entropy=unread, old_sensitivity=unread)
    shifted = replace(batch, old_logp=batch.old_logp * 2, old_entropy=batch.old_entropy * torch.rand(4, 5))
    same = [torch.equal(made(other), made(batch)) for other in (poisoned, shifted)]
    assert same == [not made.reads_policy] * 2


@pytest.mark.parametrize("name", [name for seam, name in PARTS if seam == "credit"])
def test_a_rule_reads_the_policy_exactly_if_it_says_so(part, fixture, name):
    now = fixture[1]
    unread = torch.full_like(now.logp, torch.nan)
    changed = {"batch": {f"old_{key}": unread for key in vars(now)}, "now": dict.fromkeys(vars(now), unread)}
    assert differs(part("credit", name), "credit", fixture, **changed) == part("credit", name).reads_policy
