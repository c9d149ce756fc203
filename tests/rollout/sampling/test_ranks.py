"""Samplers that remember, on two ranks of a process group: each sees half of the answers, and both ask alike."""

import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("two_ranks.py")
TESTS = str(Path(__file__).parents[2])


REMEMBERED = {"pass_rate": [1], "hard_again": [1], "curriculum": [], "weighted": []}  # parts that a checkpoint holds


@pytest.mark.parametrize(
    "kind", ["pass_rate", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*REMEMBERED][1:])]
)
def test_two_ranks_ask_in_one_order_and_go_on_with_it_from_a_checkpoint(forks, world, tiny_model, kind):
    source = str(Path(__file__).parents[3] / "src")
    variables = [one | {"PYTHONPATH": f"{source}:{TESTS}"} for one in world(2)]
    ranks = forks(SCRIPT, *(([tiny_model, kind], one) for one in variables))
    assert [rank.returncode for rank in ranks] == [0, 0], ranks[0].stderr + ranks[1].stderr
    first, second = (json.loads(rank.stdout.splitlines()[-1]) for rank in ranks)
    assert first["asked"] == second["asked"] and len(first["asked"]) == 6
    assert first["same"] and second["same"], "a run that went on asked for other problems"
    assert first["states"] == second["states"] == REMEMBERED[kind], "ranks remember different things"
    assert len({tuple(asked) for asked in first["asked"]}) > 1
