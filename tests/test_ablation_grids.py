"""The grids of docs/sweeps.md compose, from their first values to their last."""

import re
import shlex
from pathlib import Path

import pytest

from isentropic.config.compose import compose, loader_of

ROOT = Path(__file__).parents[1]
SECTION = (ROOT / "docs/sweeps.md").read_text().partition("## Ablation grids")[2].partition("\n## ")[0]
GRIDS = [shlex.split(line)[3:] for line in re.findall(r"^isentropic train -m .*", SECTION, re.M)]
LOADER = loader_of(ROOT / "configs")


def jobs(grid):
    """The first and the last of it."""
    parted = [one.partition("=") for one in grid]
    return [[f"{key}={value.split(',')[place]}" for key, _, value in parted] for place in (0, -1)]


def test_there_is_a_grid_for_each_knob_of_stare():
    swept = {key for grid in GRIDS for one in grid for key, _, value in [one.partition("=")] if "," in value}
    assert {"algorithm.credit.stare.boost", "algorithm.credit.stare.top", "algorithm.control.target"} <= swept


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid[-2])
def test_a_grid_composes(grid):
    for job in jobs(grid):
        cfg = compose(LOADER, "train", job)
        assert cfg.algorithm["_target_"].endswith(".Algorithm")
        for one in job:
            key, _, value = one.partition("=")
            if key.startswith("algorithm."):
                node = cfg
                for part in key.split("."):
                    node = node[part]
                assert node == pytest.approx(float(value))
