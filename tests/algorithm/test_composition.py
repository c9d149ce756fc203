"""Parts are chosen one by one: any of a kind goes with any of the others."""

from dataclasses import fields
from itertools import combinations, permutations
from pathlib import Path

import pytest
import torch
from hydra.utils import get_class
from omegaconf import OmegaConf

CONFIGS = Path(__file__).parents[2] / "configs/algorithm"
SEAMS = sorted(folder.name for folder in CONFIGS.iterdir() if folder.is_dir())
LISTS = "credit", "penalty"
PARTS = [(seam, path.stem) for seam in SEAMS for path in sorted((CONFIGS / seam).glob("*.yaml"))]


def override(seam, *names):
    return f"algorithm/{seam}=[{','.join(names)}]" if seam in LISTS else f"algorithm/{seam}={names[0]}"


def is_finite_and_masked(charge, algorithm, paper):
    batch, now = paper
    loss, grad, metrics, _ = charge(algorithm, batch, now)
    assert torch.tensor([loss, *metrics.values()]).isfinite().all()
    assert grad.isfinite().all()
    assert grad.abs().max() > 0
    assert (grad[~batch.mask] == 0).all()


@pytest.mark.parametrize("pair", [p for p in combinations(PARTS, 2) if p[0][0] != p[1][0]], ids=str)
def test_every_pair_of_parts_goes_together(build, charge, paper, pair):
    is_finite_and_masked(charge, build(*[override(seam, name) for seam, name in pair]), paper)


@pytest.mark.parametrize("one, other", [p for p in permutations(PARTS, 2) if p[0][0] == p[1][0] in LISTS], ids=str)
def test_every_pair_of_a_list_goes_together_in_both_orders(build, charge, paper, one, other):
    algorithm = build(override(one[0], one[1], other[1]))
    assert list(getattr(algorithm, one[0])) == [one[1], other[1]]
    is_finite_and_masked(charge, algorithm, paper)


@pytest.mark.parametrize("seam, name", PARTS)
def test_the_keys_of_a_part_are_the_fields_of_its_class(build, seam, name):
    config = OmegaConf.load(CONFIGS / seam / f"{name}.yaml")
    config = config[name] if seam in LISTS else config
    settings = {f.name for f in fields(get_class(config["_target_"])) if f.init}
    assert set(config) == {"_target_"} | settings
    assert config["_target_"].startswith(f"isentropic.algorithm.{seam}.{name}.")
