"""docs/your_own_package.md, on the package that `isentropic new mine` makes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hydra._internal.utils import create_config_search_path
from omegaconf import OmegaConf

from isentropic.commands.new import TEMPLATE, make, renamed
from isentropic.config.build import BadInput, build
from isentropic.config.compose import CONFIGS, check_jobs, compose, loader_of
from isentropic.config.own import own_configs

ROOT = Path(__file__).resolve().parents[2]
ENTRY = "[isentropic.configs]\n{name} = {name}.configs\n"


def install(folder: Path, name: str = "mine") -> Path:
    """As pip would, without building a wheel."""
    shutil.copytree(make(folder / "made", name) / name, folder / name)
    information = folder / f"{name}-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text(ENTRY.format(name=name))
    return folder / name / "configs"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    yield install(tmp_path)
    for module in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[module]


def composed(*overrides):
    return compose(loader_of(CONFIGS), "train", list(overrides))


def test_the_page_names_every_file():
    page = (ROOT / "docs" / "your_own_package.md").read_text()
    linked = set(re.findall(r"\(\.\./src/isentropic/assets/package/([\w/.-]+)\)", page))
    files = [path.relative_to(TEMPLATE) for path in TEMPLATE.rglob("*") if path.is_file()]
    assert linked == {path.as_posix() for path in files if path.name not in ("__init__.py-tpl", "gitignore-tpl")}
    shown = {renamed(TEMPLATE / name, "mine").name for name in linked}
    assert [name for name in shown if name not in page] == []


def test_options_of_an_installed_package_are_found(installed):
    assert own_configs() == {"mine": installed}
    check_jobs(loader_of(CONFIGS), "train", ["experiment=mine"], sweep=False)
    cfg = composed("experiment=mine")
    assert cfg.task._target_ == "mine.task.TrueSteps"
    assert OmegaConf.to_container(cfg.algorithm.credit) == {
        "mine": {"_target_": "mine.credit.Damped", "likely": 0.5, "damp": 0.25}
    }
    check_jobs(loader_of(CONFIGS), "inspect", ["algorithm/credit=[mine]", "rollouts=none"], sweep=False)


def test_without_it_they_are_not_there():
    with pytest.raises(BadInput, match="experiment=mine does not exist"):
        composed("experiment=mine")


def test_a_part_in_the_place_of_ones_own_brings_its_own_numbers(installed):
    assert composed("algorithm=mine").algorithm.clipping.high == 0.4
    swapped = composed("algorithm=mine", "algorithm/clipping=cispo", "algorithm/credit=[stapo]").algorithm
    assert swapped.clipping.high == 0.28 and list(swapped.credit) == ["stapo"]


def test_what_one_sets_wrong_is_a_sentence(installed):
    with pytest.raises(BadInput, match=r"credit\.mine\.damp=-1(\.0)? is a weight and must not be negative"):
        build(composed("algorithm=mine", "algorithm.credit.mine.damp=-1"), "algorithm")
    with pytest.raises(BadInput, match=r"largst does not exist: .*did you mean largest"):
        composed("task=mine", "task.largst=3")


def test_a_name_that_is_taken_is_refused(installed, tmp_path, capsys):
    shutil.copy(installed / "task" / "mine.yaml", installed / "task" / "countdown.yaml")
    with pytest.raises(SystemExit):
        composed("task=countdown")
    assert re.search(r"countdown\.yaml has the name of .*countdown\.yaml; give yours another", capsys.readouterr().err)
    (installed / "task" / "countdown.yaml").unlink()
    install(tmp_path, "other")
    shutil.copy(installed / "task" / "mine.yaml", tmp_path / "other" / "configs" / "task" / "mine.yaml")
    with pytest.raises(ValueError, match=r"other/configs/task/mine\.yaml has the name of .*/mine/configs/"):
        own_configs()


def test_a_folder_on_the_command_line_may_not_take_a_name(tmp_path):
    (tmp_path / "seed.yaml").write_text("{}")
    loader_of(CONFIGS, str(tmp_path))
    (tmp_path / "train.yaml").write_text("{}")
    with pytest.raises(BadInput, match=r"--config-dir: .*train\.yaml has the name of"):
        loader_of(CONFIGS, str(tmp_path))


def test_an_entry_point_to_nothing_is_a_sentence(installed):
    shutil.rmtree(installed)
    with pytest.raises(ValueError, match=r"entry point mine: there is no mine\.configs"):
        own_configs()


def test_help_lists_them_and_other_programs_of_hydra_see_nothing(installed, tmp_path):
    code = "from isentropic.__main__ import help_of; print(help_of('train'))"
    path = f"{tmp_path}:{ROOT / 'src'}"
    said = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True)
    for group in ("algorithm/credit", "task"):  # which may go on in further lines
        assert re.search(rf"^  {group}: (.*\n    )*.*\bmine\b", said.stdout, re.M)
    assert all(one.provider != "mine" for one in create_config_search_path(str(tmp_path / "conf")).get_path())
    assert any(one.provider == "mine" for one in create_config_search_path(str(CONFIGS)).get_path())
