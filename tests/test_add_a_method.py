"""docs/add_a_method.md, followed to the letter in a copy of the project."""

import csv
import re
import shlex
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "add_a_method.md").read_text()
FILES = dict(re.findall(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
COMMANDS = [
    line.partition("  #")[::2]
    for block in re.findall(r"^```bash\n(.*?)^```$", PAGE, re.M | re.S)
    for line in block.splitlines()
]
SMALL = [
    "sampler=transformers", "rollout.batch_size=32", "rollout.steps=2", "rollout.evaluation.problems=4",
    "policy.optimization.mini_batch=16", "policy.optimization.micro_batch=16",
]  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy")
    for name in ("src", "docs", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (copy / "configs").symlink_to((ROOT / "configs").readlink())
    shutil.copy(ROOT / "pyproject.toml", copy)
    for path, text in FILES.items():
        assert not (copy / path).exists(), path
        (copy / path).write_text(text)
    return copy


@pytest.fixture
def run(project, forks):
    """As from a shell in the project."""

    def run(command, *more):
        program, *arguments = [*shlex.split(command), *more]
        if program == "python":
            option, program, *arguments = arguments
            assert option == "-m"
        variables = {"PYTHONPATH": str(project / "src"), "PROJECT_ROOT": str(project)}
        (result,) = forks(program, (arguments, variables), where=project)
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
        return result.stdout

    return run


def command(start):
    (found,) = (entry for entry in COMMANDS if entry[0].startswith(start))
    return found


def test_a_method_is_one_file_of_code_one_of_settings_and_one_test():
    assert [Path(path).suffix for path in FILES] == [".py", ".yaml", ".py"]
    assert [Path(path).parts[0] for path in FILES] == ["src", "configs", "tests"]


def test_its_test_passes(run):
    assert "3 passed" in run(command("python -m pytest")[0], "-o", "addopts=--import-mode=importlib")


def test_its_rules_of_the_house_are_kept(run):
    run(f"python -m ruff check {' '.join(p for p in FILES if p.endswith('.py'))}")
    run("python -m pytest tests/test_architecture.py")


def test_it_can_be_looked_at(run):
    text, promised = command("isentropic inspect")
    assert promised.strip().startswith("loss ") and promised.strip() in run(text).splitlines()


def test_it_runs_as_an_ablation(project, run):
    run(command("isentropic train")[0], *SMALL, "seed=0")
    touched = []
    for damp in ("1", "0.5"):
        with (project / "logs" / "mine" / f"algorithm.credit.mine.damp={damp}" / "metrics.csv").open() as file:
            touched.append([float(row["credit/mine"]) for row in csv.DictReader(file) if row["credit/mine"]])
    assert touched[0] == [0, 0] and len(touched[1]) == 2 and min(touched[1]) > 0.1
    said = run(command("isentropic report")[0])
    assert "logs/mine/report/report.html" in said and (project / "logs" / "mine" / "report" / "report.md").is_file()
