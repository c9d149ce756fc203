"""A wheel, and a package of one's own beside it, in an empty folder without a checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isentropic import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
SMALL = ["rollout.steps=2", "rollout.batch_size=32", "rollout.evaluation.problems=4", "trainer.val_check_interval=2"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    tar = subprocess.run(["tar", "c", "--null", "-T", "-"], cwd=ROOT, input=files, capture_output=True, check=True)
    (folder / "source").mkdir()
    subprocess.run(["tar", "x", "-C", folder / "source"], input=tar.stdout, check=True)
    how = ["--no-deps", "--no-index", "--no-build-isolation", "--target", folder / "site"]
    subprocess.run([sys.executable, "-m", "pip", "install", *how, folder / "source"], check=True)
    run(folder / "site", folder, "new", "mine")
    subprocess.run([sys.executable, "-m", "pip", "install", *how, folder / "mine"], check=True)
    return folder / "site"


def run(site, folder, *arguments):
    settings = {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment = {name: value for name, value in os.environ.items() if name != "PROJECT_ROOT"} | settings
    command = [site / "bin" / "isentropic", *arguments]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_wheel_and_ones_own_package_run_where_they_are_called(site, tmp_path):
    assert run(site, tmp_path, "--version") == f"isentropic {__version__}\n"
    (tmp_path / ".env").write_text("WHOSE=mine\n")
    said = run(site, tmp_path, "train", "experiment=mine", "tags=['${oc.env:WHOSE}']", *SMALL)
    (folder,) = (tmp_path / "logs" / "train" / "runs").iterdir()
    assert (folder / "metrics.csv").is_file() and (folder / "curves.png").is_file()
    assert f"run folder: {folder}" in said
    config = (folder / "config.yaml").read_text()
    assert "tags:\n- mine\n" in config and f"{site}/isentropic/assets" in config, "it is not the wheel that ran"
    assert "algorithm/credit/mine.yaml" in (folder / "config_sources.txt").read_text()


PLANS = """
import runpy, isentropic
print(isentropic.__file__)
runpy.run_module("isentropic", run_name="__main__")
"""


def test_a_wheel_plans_the_quickstart(site, forks, tmp_path):
    """In a fork, as the entry point is the one above."""
    variables = {"PYTHONPATH": str(site), "PROJECT_ROOT": None, "ISENTROPIC_PACKAGE": None}
    (tmp_path / "plans.py").write_text(PLANS)
    (planned,) = forks(tmp_path / "plans.py", (["plan", "experiment=quickstart"], variables), where=tmp_path)
    assert planned.returncode == 0 and "GiB" in planned.stdout, planned.stderr
    assert planned.stdout.startswith(f"{site}/isentropic/"), "it is not the wheel that ran"
