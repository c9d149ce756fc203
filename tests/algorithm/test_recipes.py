"""Recipes keep their paper's numbers; what an experiment sets on one is left behind when another is chosen."""

from pathlib import Path

import pytest
from hydra.utils import instantiate

CONFIGS = Path(__file__).parents[2] / "configs"
RECIPES = sorted(path.stem for path in (CONFIGS / "algorithm").glob("*.yaml"))


def test_recipes_name_their_paper():
    unnamed = [
        r for r in RECIPES if "arXiv:" not in (CONFIGS / f"algorithm/{r}.yaml").read_text().split("defaults:")[0]
    ]
    assert unnamed == []


@pytest.mark.parametrize(
    "recipe, low, high, ceiling, by_std, aggregation",
    [
        ("grpo", 0.2, 0.2, 10, True, "SequenceMean"),
        ("dr_grpo", 0.2, 0.2, 10, False, "Constant"),
        ("dapo", 0.2, 0.28, 10, True, "TokenMean"),
        ("stare", 0.2, 0.28, 10, True, "TokenMean"),
    ],
)
def test_recipes_keep_their_numbers(build, recipe, low, high, ceiling, by_std, aggregation):
    algorithm = build(f"algorithm={recipe}")
    clipping = algorithm.clipping
    assert (clipping.low, clipping.high, clipping.ceiling) == (low, high, ceiling)
    assert algorithm.advantage.divide_by_std == by_std
    assert type(algorithm.aggregation).__name__ == aggregation


@pytest.mark.parametrize(
    "recipe, boost, damp, step", [("stare", 1.1, 1, 0), ("stare_c2", 1.1, 0.9, 0), ("stare_adaptive", 1.1, 0.9, 0.1)]
)
def test_stare_keeps_its_numbers(build, recipe, boost, damp, step):
    algorithm = build(f"algorithm={recipe}")
    rule, gate = algorithm.credit["stare"], algorithm.control
    assert (rule.top, rule.boost, rule.damp) == (0.1, boost, damp)
    assert (gate.target, gate.step, gate.ceiling) == (0.3, step, 5)


@pytest.fixture
def experiment(tmp_path):
    """A run with STARE that needs other numbers than the paper's: the override that selects it."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/example.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /algorithm: stare\nalgorithm: {scope: rank}\n"
        "overrides: {algorithm: {stare: {credit: {stare: {boost: 5.0}}}}, algorithm/control: {gate: {target: 0.15}}}"
    )
    return f"hydra.searchpath=[file://{tmp_path}]", "experiment=example"


def test_an_experiment_chooses_a_recipe_and_its_settings(configure, experiment):
    config = configure(*experiment)
    assert (config.control.target, config.credit.stare.boost, config.scope) == (0.15, 5.0, "rank")


@pytest.mark.parametrize("recipe", RECIPES)
def test_another_recipe_leaves_behind_what_was_not_set_for_it(configure, experiment, recipe):
    config = configure(*experiment, f"algorithm={recipe}")
    assert config.scope == "rank"
    if config.control._target_.endswith(".Gate"):
        assert config.control.target == 0.15
    if "stare" in config.credit:
        paper = configure(f"algorithm={recipe}").credit.stare.boost
        assert config.credit.stare.boost == (5.0 if recipe == "stare" else paper) and paper in (1.0, 1.1)
    instantiate(config)


def test_another_controller_leaves_behind_the_settings_of_the_gate(configure, experiment):
    config = configure(*experiment, "algorithm/control=constant")
    assert set(config.control) == {"_target_", "up", "down"}
    assert config.credit.stare.boost == 5.0


def test_the_command_line_has_the_last_word(configure, experiment):
    config = configure(*experiment, "algorithm.control.target=0.2", "algorithm.credit.stare.boost=3")
    assert (config.control.target, config.credit.stare.boost) == (0.2, 3)


def test_unknown_keys_are_refused(build):
    with pytest.raises(Exception, match="clip_ratio"):
        build("algorithm.clipping.clip_ratio=0.1")
