"""A part that is swapped brings its own numbers, and what an experiment sets for one option stays with that option."""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec, module_from_spec
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hydra._internal import defaults_list
from hydra.core.default_element import ConfigDefault
from omegaconf import OmegaConf

from isentropic.config.build import BadInput
from isentropic.config.compose import CONFIGS, check_jobs, compose, loader_of
from isentropic.config.loader import ConfigLoader, list_choices_where_read
from isentropic.config.provenance import sources

STEPS = ("control", "advantage", "ratio", "clipping", "aggregation")  # of which one option is chosen
LISTS = ("credit", "penalty")
# of the groups of a run, those of which one option is chosen, and those of which several are
ONE = ("callbacks", "trainer", "rollout", "sampler", "debug", "hydra/launcher")
SEVERAL = ("logger", "evaluation", "rollout/curation")
LOADER = loader_of(CONFIGS)


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


RECIPES, EXPERIMENTS = options("algorithm"), options("experiment")
# every part once, several at a time, one of each step, and of a list as many as make no job more
JOBS = max(len(options(f"algorithm/{step}")) for step in STEPS)
SWAPS = [
    [(step, [option]) for step in STEPS for option in options(f"algorithm/{step}")[at : at + 1]]
    + [(step, some) for step in LISTS if (some := options(f"algorithm/{step}")[at::JOBS])]
    for at in range(JOBS)
]


@cache
def algorithm(*overrides: str) -> dict:
    cfg = compose(LOADER, "inspect", ["rollouts=none", *overrides])
    return OmegaConf.to_container(cfg.algorithm)


def own(recipe: str) -> dict:
    return algorithm(f"algorithm={recipe}")


@cache
def from_file(step: str, option: str) -> dict:
    return OmegaConf.to_container(OmegaConf.load(CONFIGS / "algorithm" / step / f"{option}.yaml"))


def check(recipe: str, swaps: Sequence[tuple[str, list[str]]]) -> None:
    """The swapped steps are as their files have them."""
    lines = [
        f"algorithm/{step}=[{','.join(chosen)}]" if step in LISTS else f"algorithm/{step}={chosen[0]}"
        for step, chosen in swaps
    ]
    before, after = own(recipe), algorithm(f"algorithm={recipe}", *lines)
    for step, chosen in swaps:
        if step in LISTS:
            assert after[step] == {one: before[step].get(one, from_file(step, one)[one]) for one in chosen}
            assert list(after[step]) == chosen
        else:
            file = from_file(step, chosen[0])
            assert after[step] == (before[step] if before[step]["_target_"] == file["_target_"] else file)


def test_a_swapped_part_brings_its_own_numbers():
    """Each part once, into recipes that are far from each other."""
    for recipe, job in zip(RECIPES[:: len(RECIPES) // len(SWAPS)], SWAPS, strict=False):
        check(recipe, job)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_part_brings_its_own_numbers_into_every_recipe(recipe):
    for job in SWAPS:
        check(recipe, job)
    swapped = {(step, one) for job in SWAPS for step, chosen in job for one in chosen}
    assert swapped == {(step, one) for step in (*STEPS, *LISTS) for one in options(f"algorithm/{step}")}


def test_the_command_line_sets_numbers_of_a_swapped_part():
    found = algorithm("algorithm=gspo", "algorithm/clipping=aspo", "algorithm.clipping.high=0.5")
    assert (found["clipping"]["low"], found["clipping"]["high"]) == (0.2, 0.5)


def chosen(*overrides: str) -> dict:
    return OmegaConf.to_container(compose(LOADER, "train", [*overrides]))


def test_every_credit_rule_goes_with_the_quickstart():
    for rule in options("algorithm/credit"):
        assert list(chosen("experiment=quickstart", f"algorithm/credit=[{rule}]")["algorithm"]["credit"]) == [rule]


@pytest.mark.slow
@pytest.mark.parametrize("number, experiment", [*enumerate(EXPERIMENTS)])
def test_every_experiment_goes_with_credit_rules_that_it_does_not_have(number: int, experiment: str):
    """One alone, so that each is alone somewhere, and all together."""
    rules = options("algorithm/credit")
    for some in ([rules[number % len(rules)]], rules):
        assert (
            list(chosen(f"experiment={experiment}", f"algorithm/credit=[{','.join(some)}]")["algorithm"]["credit"])
            == some
        )


def test_every_option_goes_with_the_quickstart():
    """As few jobs as hold every option once, one of each group; of lists, one alone."""
    chosen = [[f"{group}={option}" for option in options(group)] for group in ONE]
    chosen += [[f"{group}=[{option}]" for option in options(group)] for group in SEVERAL]
    for job in zip_longest(*chosen):
        check_jobs(LOADER, "train", ["experiment=quickstart", *filter(None, job)], sweep=False)


def test_none_of_several_can_be_chosen():
    assert list(chosen("experiment=quickstart", "callbacks=none")["callbacks"]) == ["weight_sync"]
    assert not chosen("experiment=quickstart", "evaluation=[]").get("evaluation")


def test_a_file_s_ending_changes_nothing():
    plain = chosen("experiment=quickstart", "algorithm=stare", "sampler=vllm")
    ending = chosen("experiment=quickstart.yaml", "algorithm=stare.yaml", "sampler=vllm.yaml")
    assert plain["algorithm"]["credit"]["stare"]["boost"] == 5.0 and plain["algorithm"]["control"]["target"] == 0.15
    assert {key: plain[key] for key in plain if key != "hydra"} == {
        key: ending[key] for key in ending if key != "hydra"
    }


def test_values_of_overrides_come_from_the_experiment_s_file():
    origin = sources(LOADER, "train", ["experiment=countdown_grid", "algorithm=stare"])
    assert origin["algorithm.credit.stare.boost"] == "experiment/countdown_grid.yaml"
    assert origin["algorithm.control.target"] == "experiment/quickstart.yaml"


@pytest.fixture
def mine(tmp_path: Path):
    """An experiment of one's own, in a folder of one's own."""

    def composed(overrides: dict, *line: str) -> dict:
        (tmp_path / "experiment").mkdir(exist_ok=True)
        text = yaml.safe_dump({"defaults": ["quickstart", "_self_"], "overrides": overrides})
        (tmp_path / "experiment/mine.yaml").write_text(f"# @package _global_\n{text}")
        cfg = compose(loader_of(CONFIGS, str(tmp_path)), "train", ["experiment=mine", *line])
        return OmegaConf.to_container(cfg)

    return composed


def test_an_experiment_of_one_s_own_can_have_overrides(mine):
    settings = {"sampler": {"transformers": {"dtype": "bfloat16"}}, "algorithm": {"grpo": {"clipping": {"high": 0.3}}}}
    assert mine(settings, "algorithm=grpo", "sampler=transformers")["sampler"]["dtype"] == "bfloat16"
    assert mine(settings, "algorithm=grpo")["algorithm"]["clipping"]["high"] == 0.3
    assert mine(settings, "algorithm=grpo", "algorithm/clipping=aspo")["algorithm"]["clipping"]["high"] == 0.2
    assert "overrides" not in mine(settings)


def test_an_experiment_s_numbers_stay_with_the_option_that_they_are_for(tmp_path: Path):
    (tmp_path / "experiment").mkdir()
    for name, swap in (("plain", ""), ("swapped", "  - override /algorithm/clipping: aspo\n")):
        (tmp_path / f"experiment/{name}.yaml").write_text(
            f"# @package _global_\ndefaults:\n  - quickstart\n  - override /algorithm: dapo\n{swap}  - _self_\n"
            "algorithm: {clipping: {high: 0.4}}\n"
        )
    loader = loader_of(CONFIGS, str(tmp_path))

    def high(*line: str) -> float:
        return compose(loader, "train", [*line]).algorithm.clipping.high

    assert high("experiment=plain") == 0.4 and high("experiment=swapped") == 0.4
    assert high("experiment=plain", "algorithm/clipping=aspo") == 0.2
    assert high("experiment=swapped", "algorithm/clipping=cispo") == 0.28


def test_a_file_that_changes_between_two_jobs_is_read_again(tmp_path: Path):
    (tmp_path / "experiment").mkdir()
    file = tmp_path / "experiment/changing.yaml"
    for seed in (11, 222):
        file.write_text(f"# @package _global_\nseed: {seed}\n")
        for line, wanted in (([], seed), (["seed=5"], 5), ([], seed)):
            assert compose(loader_of(CONFIGS, str(tmp_path)), "train", ["experiment=changing", *line]).seed == wanted
    file.unlink()
    with pytest.raises(BadInput, match="experiment=changing does not exist"):
        compose(loader_of(CONFIGS, str(tmp_path)), "train", ["experiment=changing"])


def test_settings_of_a_part_that_does_not_exist_are_refused(tmp_path: Path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/typo.yaml").write_text("# @package _global_\ncallbacks: {idel: {patience: 3}}\n")
    with pytest.raises(BadInput, match=r"callbacks\.idel is no part that can be chosen; did you mean idle\?"):
        compose(loader_of(CONFIGS, str(tmp_path)), "train", ["experiment=typo"])


@pytest.mark.parametrize(
    "overrides, said",
    [
        ({"algorithm/credit": {"stare": {}}}, "several are chosen; set algorithm.credit.NAME itself"),
        ({"algorithm": {"star": {}}}, "overrides.algorithm.star, and algorithm=star does not exist; did you mean"),
        ({"algoritm": {"stare": {}}}, "overrides.algoritm.stare, and algoritm=stare does not exist"),
    ],
)
def test_overrides_for_what_does_not_exist_are_refused(mine, overrides, said):
    with pytest.raises(BadInput, match=said):
        mine(overrides)


def test_a_setting_of_a_part_that_is_not_chosen_says_how_to_choose_it():
    with pytest.raises(BadInput, match=r"cannot be set, as stare is not chosen; add it to algorithm/credit"):
        chosen("experiment=quickstart", "algorithm/credit=[stapo]", "algorithm.credit.stare.boost=3")


def listing(overrides, defaults_list, self_added):
    return OmegaConf.create({"all": "of them"})


def test_choices_are_listed_only_for_defaults_that_read_them():
    fixed, reading = (ConfigDefault(path=path, parent_base_dir="", parent_package="") for path in ("task", "${task}"))
    hydra = SimpleNamespace(_create_interpolation_map=listing)
    list_choices_where_read(hydra)
    assert hydra._create_interpolation_map(None, [fixed], False) is None
    assert hydra._create_interpolation_map(None, [fixed, reading], False) == {"all": "of them"}


@pytest.mark.parametrize("function", [None, lambda overrides: 0, lambda overrides, defaults_list: 0])
def test_a_hydra_that_lists_choices_in_another_way_stays_as_it_is(function):
    hydra = SimpleNamespace(_create_interpolation_map=function) if function else SimpleNamespace()
    list_choices_where_read(hydra)
    assert getattr(hydra, "_create_interpolation_map", None) is function


def test_the_installed_hydra_lists_choices_where_they_are_read(monkeypatch):
    """Or what a config costs has doubled; the config is the same either way."""

    def composed() -> dict:
        return OmegaConf.to_container(compose(loader_of(CONFIGS), "train", ["experiment=quickstart"]))

    quick = composed()
    spec = find_spec("hydra._internal.defaults_list")
    as_it_comes = module_from_spec(spec)
    spec.loader.exec_module(as_it_comes)
    assert as_it_comes._create_interpolation_map.__module__ != defaults_list._create_interpolation_map.__module__
    monkeypatch.setattr(defaults_list, "_create_interpolation_map", as_it_comes._create_interpolation_map)
    assert composed() == quick


def test_the_options_of_a_recipe_are_found_anew_where_a_file_changes_that_it_is_made_of(tmp_path: Path):
    folder = tmp_path / "algorithm"
    folder.mkdir()
    (folder / "mine.yaml").write_text("# @package algorithm\ndefaults: [base, _self_]\nclipping: {high: 0.4}\n")
    for own, high in (("", 0.28), (", override clipping: cispo", 0.4), ("", 0.28)):
        (folder / "base.yaml").write_text(f"# @package algorithm\ndefaults: [dapo{own}]\n")
        line = ["experiment=quickstart", "algorithm=mine", "algorithm/clipping=cispo"]
        assert compose(loader_of(CONFIGS, str(tmp_path)), "train", line).algorithm.clipping.high == high
    assert "algorithm/mine" in ConfigLoader.own


def test_the_options_of_a_recipe_are_found_anew_where_a_file_appears_that_may_be_missing(tmp_path: Path):
    folder = tmp_path / "algorithm"
    (folder / "clipping").mkdir(parents=True)
    (folder / "late.yaml").write_text("# @package algorithm\ndefaults: [optional clipping: late]\n")
    loader = loader_of(CONFIGS, str(tmp_path))
    assert loader.own_options("algorithm/late", loader.repository) == {}
    (folder / "clipping/late.yaml").write_text("high: 0.4\n")
    assert loader.own_options("algorithm/late", loader.repository) == {"algorithm/clipping": "late"}
