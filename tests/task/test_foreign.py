import sys

import pytest

from isentropic.task import Verdict
from isentropic.task.foreign import made_by, verdict_of


def test_a_class_is_found_in_a_package_in_a_file_and_beside_the_run(tmp_path, monkeypatch):
    (tmp_path / "world_beside_the_run.py").write_text("class World:\n    pass\n\n\nsize = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert made_by("task.environment", "collections.OrderedDict").__name__ == "OrderedDict"
    assert made_by("task.environment", "world_beside_the_run.World").__name__ == "World"
    assert made_by("task.environment", f"{tmp_path}/world_beside_the_run.py:World").__name__ == "World"
    assert made_by("task.environment", "world_beside_the_run.py:World") is made_by(
        "task.environment", "world_beside_the_run.py:World"
    )
    monkeypatch.delitem(sys.modules, "world_beside_the_run")


def test_what_is_not_there_or_breaks_is_one_sentence(tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "sized.py").write_text("size = 3\n")
    for path, said in (
        (f"{tmp_path}/broken.py:World", "cannot be imported: ZeroDivisionError"),
        (f"{tmp_path}/nowhere.py:World", "cannot be imported: FileNotFoundError"),
        (f"{tmp_path}/sized.py:size", "has no class or function size"),
        ("no_such_package.World", "cannot be imported: ModuleNotFoundError"),
        ("World", "is neither package.module.Name nor"),
        ("", "is neither package.module.Name nor"),
    ):
        with pytest.raises(ValueError, match=rf"^task\.environment=.*{said}") as error:
            made_by("task.environment", path)
        assert "\n" not in str(error.value)


def test_rewards_are_finite_numbers():
    assert verdict_of(1, 1.0) == Verdict(1.0, True, "right") and verdict_of(0.5, 1.0) == Verdict(0.5, False, "wrong")
    for reward in (None, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="no finite number"):
            verdict_of(reward, 1.0)
