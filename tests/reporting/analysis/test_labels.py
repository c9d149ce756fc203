from isentropic.reporting.analysis.groups import group
from isentropic.runs.run import find


def labels(*folders, **given):
    runs = [run for folder in folders for run in find([folder])]
    runs += [run for label, folder in given.items() for run in find([folder], label)]
    return [one.label for one in group(runs).groups]


def test_a_choice_stands_for_the_keys_it_changed(sweep):
    assert labels(sweep()) == ["grpo", "stare"]


def test_a_number_comes_with_its_name(a_run, tmp_path):
    for method in ("grpo", "stare"):
        for rate in (0.1, 0.2):
            config = {"method": method, "lr": rate}
            a_run(tmp_path / f"{method}{rate}", config=config, overrides=[f"algorithm={method}", f"policy.lr={rate}"])
    assert labels(tmp_path) == ["grpo lr=0.1", "grpo lr=0.2", "stare lr=0.1", "stare lr=0.2"]


def test_a_default_is_read_from_the_settings(a_run, tmp_path):
    a_run(tmp_path / "a", config={"target": 0.15})
    a_run(tmp_path / "b", config={"target": 0.3}, overrides=["target=0.3"])
    assert labels(tmp_path) == ["target=0.15", "target=0.3"]


def test_two_choices_of_the_same_settings_are_named_together(a_run, tmp_path):
    for method, boost in (("dapo", 1), ("just_rl", 1), ("stare", 2), ("grpo", 3)):
        a_run(tmp_path / method, config={"boost": boost}, overrides=[f"algorithm={method}"])
    assert labels(tmp_path) == ["dapo = just_rl", "grpo", "stare"]


def test_without_a_command_line_the_fewest_keys_name_a_group(a_run, tmp_path):
    for name, (kind, boost) in {"a": ("isentropic.control.gate.Gate", 1), "b": ("isentropic.x.Phases", 2)}.items():
        a_run(tmp_path / name, config={"control": {"_target_": kind, "boost": boost}})
    assert labels(tmp_path) == ["Gate", "Phases"]


def test_the_users_own_name_comes_first(a_run, tmp_path):
    folders = [a_run(tmp_path / name, config={"x": name}) for name in ("a", "b")]
    assert labels(one=folders[0], two=folders[1]) == ["one", "two"]
    assert labels(mine=tmp_path) == ["mine x=a", "mine x=b"]


def test_equal_settings_under_two_names_are_two_groups(a_run, tmp_path):
    folders = [a_run(tmp_path / name) for name in ("a", "b")]
    assert labels(before=folders[0], after=folders[1]) == ["before", "after"]
