import pytest

from isentropic.reporting.analysis.groups import group
from isentropic.runs.run import find


def grouped(folder, *ignore):
    return group(find([folder]), ignore)


def sizes(grouping):
    return {one.label: len(one.runs) for one in grouping.groups}


def test_seeds_are_replicates_of_what_the_command_line_chose(sweep):
    found = grouped(sweep())
    assert sizes(found) == {"grpo": 3, "stare": 3}
    assert found.settings == ["algorithm.control._target_", "algorithm.boost"] and found.seeds == ["seed", "task.seed"]
    assert found.groups[0].settings == {"algorithm.control._target_": "Grpo", "algorithm.boost": 4}
    assert found.groups[0].seeds == [0, 1, 2] and found.notes == []


def test_one_run_is_one_group(a_run, tmp_path):
    found = grouped(a_run(tmp_path / "run", overrides=["algorithm=grpo"]))
    assert sizes(found) == {"grpo": 1} and found.settings == []


def test_places_names_and_watchers_are_no_settings(a_run, tmp_path):
    for seed in (0, 1):
        home = tmp_path / f"copy_{seed}"
        own = {"paths": {"root": str(home)}, "policy": {"path": f"{home}/model"}, "callbacks": {"every": seed}}
        a_run(home / "run", seed=seed, config={**own, "trainer": {"default_root_dir": f"x{seed}"}, "tags": [seed]})
    assert sizes(grouped(tmp_path)) == {"run": 2}


def test_a_seed_that_does_not_follow_the_seed_is_a_setting(a_run, tmp_path):
    for seed in (0, 1):
        for problems in (5, 6):
            a_run(tmp_path / f"{seed}{problems}", seed=seed, config={"task": {"seed": problems}})
    found = grouped(tmp_path)
    assert found.settings == ["task.seed"] and sizes(found) == {"seed=5": 2, "seed=6": 2}


def test_where_the_seed_stays_other_seeds_tell_replicates_apart(a_run, tmp_path):
    for number in range(3):
        a_run(tmp_path / str(number), config={"rollout": {"seed": number, "steps": 40}})
    found = grouped(tmp_path)
    assert found.seeds == ["rollout.seed"] and [len(one.runs) for one in found.groups] == [3]


def test_a_key_that_differs_in_every_run_is_no_setting_where_seeds_do_too(a_run, tmp_path):
    for seed in range(4):
        method = ("grpo", "stare")[seed % 2]
        config = {"sampler": {"address": 4000 + seed}, "method": method}
        a_run(tmp_path / str(seed), seed=seed, config=config, overrides=[f"method={method}"])
    found = grouped(tmp_path)
    assert sizes(found) == {"grpo": 2, "stare": 2} and found.settings == ["method"]
    assert found.notes == [
        "sampler.address differs in every run, as seeds do, and nobody chose it on the command line: it was not taken"
        " for a setting."
    ]


def test_a_key_that_was_chosen_anew_for_every_run_is_a_setting_and_can_be_ignored(a_run, tmp_path):
    for seed in range(4):
        a_run(tmp_path / str(seed), seed=seed, config={"lr": 0.1 * (seed + 1)}, overrides=[f"lr={0.1 * (seed + 1)}"])
    found = grouped(tmp_path)
    assert len(found.groups) == 4
    assert found.notes == [
        "No two runs have the same settings: lr differs in every run, so there are no replicates; where it is no"
        " setting, --ignore lr leaves it out."
    ]
    assert [len(one.runs) for one in grouped(tmp_path, "lr").groups] == [4]
    with pytest.raises(ValueError, match="--ignore nothing: no run has such a key"):
        grouped(tmp_path, "nothing")


OLD = {"policy": {"_target_": "Policy", "lr": 0.1}}
NEW = {"policy": {"_target_": "Policy", "lr": 0.1, "early_logp": "policy"}}


def test_a_key_that_older_runs_do_not_know_is_no_setting(a_run, tmp_path):
    for seed, config in enumerate((OLD, NEW, NEW)):
        a_run(tmp_path / str(seed), seed=seed, config=config, overrides=["policy=large", f"seed={seed}"])
    found = grouped(tmp_path)
    assert [len(one.runs) for one in found.groups] == [3] and found.settings == []
    assert found.notes == [
        "policy.early_logp is not known to 1 of 3 runs, which are of before it existed, and is policy in all others: it"
        " was not taken for a setting."
    ]


@pytest.mark.parametrize(
    ("newer", "overrides"),
    [
        ({"policy": NEW["policy"] | {"_target_": "Other"}}, []),
        (NEW, ["policy.early_logp=policy"]),
        (NEW, ["policy=large"]),
        (NEW, ["experiment=mine"]),
    ],
)
def test_a_key_that_a_part_or_someone_chose_is_a_setting(a_run, tmp_path, newer, overrides):
    a_run(tmp_path / "old", config=OLD)
    a_run(tmp_path / "new", config=newer, overrides=overrides)
    assert "policy.early_logp" in grouped(tmp_path).settings


def test_a_key_of_two_values_that_some_lack_is_a_setting(a_run, tmp_path):
    for name, config in (("a", OLD), ("b", NEW), ("c", {"policy": NEW["policy"] | {"early_logp": "sampler"}})):
        a_run(tmp_path / name, config=config)
    assert grouped(tmp_path).settings == ["policy.early_logp"]


def test_true_is_not_one(a_run, tmp_path):
    for name, value in (("a", True), ("b", 1)):
        a_run(tmp_path / name, config={"policy": {"recompute_logp": value}})
    assert sizes(grouped(tmp_path)) == {"recompute_logp=True": 1, "recompute_logp=1": 1}


def test_runs_of_unknown_settings_stay_apart(a_run, tmp_path):
    for name in ("a", "b"):
        (a_run(tmp_path / name) / "config.yaml").unlink()
    a_run(tmp_path / "c", overrides=["algorithm=grpo"])
    found = grouped(tmp_path)
    assert sizes(found) == {"a": 1, "b": 1, "grpo": 1} and found.settings == []


@pytest.mark.parametrize("values", [(True, 1), (1, True), (False, None), (float("nan"), 1.0), ("a", "b")])
def test_values_that_differ_in_python_s_eyes_or_yaml_s_are_settings(a_run, tmp_path, values):
    for seed in (0, 1):
        for place, value in enumerate(values):
            a_run(tmp_path / f"{seed}{place}", seed=seed, config={"switch": value})
    found = grouped(tmp_path)
    assert found.settings == ["switch"] and len(found.groups) == 2
