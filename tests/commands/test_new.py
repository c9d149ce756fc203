"""The package that `isentropic new` makes, and the names that it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isentropic.commands.new import main, make

SMALL = ["rollout.steps=1", "rollout.batch_size=32", "rollout.evaluation.problems=4", "trainer.val_check_interval=1"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("1st", "cannot be a package's name"),
        ("my method", "cannot be a package's name"),
        ("../mine", "cannot be a package's name"),
        ("Mine", "cannot be a package's name"),
        ("class", "cannot be a package's name"),
        ("json", "would hide the module json"),
        ("isentropic", "would hide the module isentropic"),
        ("stare", "would have the option algorithm"),
        ("taken", "taken exists; give another name"),
    ],
)
def test_a_name_that_cannot_be_is_a_sentence_and_makes_nothing(tmp_path, monkeypatch, capsys, name, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    with pytest.raises(SystemExit) as caught:
        main([name])
    said = capsys.readouterr().err
    assert caught.value.code == 2 and sentence in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]


def test_without_one_name_it_says_how(capsys):
    for arguments in ([], ["a", "b"], ["--name"]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert "as in isentropic new my-method" in capsys.readouterr().err


def test_every_file_bears_the_name_and_is_formatted(tmp_path):
    folder = make(tmp_path, "my-method")
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert {".gitignore", "README.md", "my_method/__init__.py", "tests/test_my_method.py"} <= set(files)
    assert 'name = "my-method"' in files["pyproject.toml"]
    assert 'my_method = "my_method.configs"' in files["pyproject.toml"]
    assert not [name for name, text in files.items() if "mine" in name or "mine" in text.split() or "-tpl" in name]
    style = ["--isolated", "--line-length=120"]
    for command in (["check", "--select=E,F,I,UP,B"], ["format", "--check"]):
        ended = subprocess.run([sys.executable, "-m", "ruff", *command, *style, folder], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
def test_the_package_tests_trains_and_sweeps_as_it_is(forks, tmp_path):
    """The jobs of the sweep are trainings like any other."""
    folder, site = make(tmp_path, "my-method"), tmp_path / "site"
    how = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--target", site]
    subprocess.run([sys.executable, "-m", "pip", "install", *how, folder], check=True)
    paths = {"PYTHONPATH": os.pathsep.join([str(site), str(Path(__file__).parents[2] / "src")])}
    sweep = ["train", "-m", "experiment=my_method", "algorithm=my_method,dapo", "hydra.sweep.dir=many", *SMALL]
    for program, arguments, where in (("pytest", ["-q"], folder), ("isentropic", sweep, tmp_path)):
        (ended,) = forks(program, (arguments, paths), where=where, limit=600)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    jobs = [file.parent for file in (tmp_path / "many").rglob("metrics.csv")]
    sources = [(job / "config_sources.txt").read_text() for job in jobs]
    assert sum("algorithm/credit/my_method.yaml" in text for text in sources) == 1 and len(jobs) == 2


@pytest.mark.slow
def test_a_folder_that_bears_the_name_of_its_package_does_not_hide_it_from_above(tmp_path):
    folder, site = make(tmp_path, "my_method"), tmp_path / "site"
    how = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--prefix", site]
    subprocess.run([sys.executable, "-m", "pip", "install", *how, "--editable", folder], check=True)
    (path,) = site.rglob("__editable__*.pth")
    paths = [str(tmp_path), path.read_text().strip(), str(Path(__file__).parents[2] / "src")]
    command = [sys.executable, "-c", "import my_method.credit"]
    assert subprocess.run(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}).returncode == 0
