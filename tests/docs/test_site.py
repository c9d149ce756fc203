"""The site: what is laid out for it, and what a browser without a network sees of it."""

import re
import subprocess
from pathlib import Path

import pytest
from docstrings import restructured
from fields import comments_of, first_line_of
from stage import ELSEWHERE, ROOT, stage, version

from isentropic import __version__

PYTHON = ROOT / ".venv" / "docs" / "bin" / "python"
SHOWN = ("index", "start", "api/isentropic/algorithm/credit/stare/index", "configs/algorithm", "troubleshooting")


@pytest.fixture(scope="module")
def staged(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site") / "source"
    stage(out)
    return out


def test_the_version_is_that_of_the_package():
    assert version() == __version__


def test_links_out_of_docs_lead_to_pages_of_the_site(staged: Path):
    text = (staged / "add_a_method.md").read_text()
    assert "{py:mod}`advantage <isentropic.algorithm.advantage>`" in text and "../src" not in text
    assert "[slurm.yaml](#config-hydra-launcher-slurm)" in (staged / "slurm.md").read_text()
    assert "(files/notebooks/02_entropy_dynamics.ipynb)" in (staged / "troubleshooting.md").read_text()
    assert (staged / "files" / "notebooks" / "02_entropy_dynamics.ipynb").is_file()


def test_pages_beside_their_subject_are_pages_of_the_site(staged: Path):
    assert all((staged / page).is_file() for page in ELSEWHERE.values())
    assert "](../inspect.md)" in (staged / "project" / "CONTRIBUTING.md").read_text()


def test_what_a_block_needs_can_be_read(staged: Path):
    assert "*Needs a card:*\n\n```bash" in (staged / "benchmark.md").read_text()


def test_each_section_is_in_the_menu(staged: Path):
    assert (staged / "index.md").read_text().count("```{toctree}") == 8


def test_docstrings_are_text_with_code_and_lines_that_stand():
    assert restructured("`a*b` and old_ of `x`, a|b") == "``a*b`` and old\\_ of ``x``, a\\|b"
    assert restructured("") == ""
    assert restructured("First.\n\n    a   b\n    c   d\n\nLast.") == "First.\n\n::\n\n    a   b\n    c   d\n\nLast."


def test_a_setting_is_described_by_the_comment_beside_its_field():
    assert comments_of("isentropic.rollout.turns.Turns")["turns"] == "completions"
    assert comments_of("torch.nn.Linear") == {}
    assert first_line_of("isentropic.rollout.turns.Turns").startswith("Budgets of one episode")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    if not PYTHON.exists():
        pytest.skip("the packages of the site are not installed; make docs installs them")
    site = tmp_path_factory.mktemp("built")
    ended = subprocess.run([PYTHON, ROOT / "docs" / "site" / "build.py", site], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return site


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_open_without_a_network_and_fit_the_screen(built: Path, chromium, width: int):
    context = chromium.new_context(viewport={"width": width, "height": 800}, offline=True)
    page, wrong = context.new_page(), []
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url))
    page.on("requestfailed", lambda asked: wrong.append(asked.url))
    for name in SHOWN:
        page.goto((built / version() / f"{name}.html").as_uri())
        assert page.locator("h1").first.inner_text().strip(), name
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is wider than the screen"
    assert page.locator("#versions option").all_inner_texts() == [version()]
    page.goto((built / version() / "api/isentropic/algorithm/credit/stare/index.html").as_uri())
    assert "weight of surprising tokens in good answers" in page.locator("body").inner_text()
    context.close()
    assert wrong == []


@pytest.mark.slow
def test_the_menu_of_each_page_leads_to_pages(built: Path):
    """Modules of a room share one, as none of them is an entry of it."""
    pages, wrong = sorted((built / version() / "api").rglob("*.html")), []
    for page in pages:
        menu = page.read_text().partition('class="sidebar-tree"')[2].partition('class="main"')[0]
        links = {link for link in re.findall(r'href="([^"#]+)"', menu) if "://" not in link}
        wrong += [(page, link) for link in links if not (page.parent / link).is_file()]
        assert len(links) > 60, page
    assert len(pages) > 400 and wrong == []


@pytest.mark.slow
def test_an_error_sentence_is_found_by_the_search(built: Path, chromium):
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.goto((built / version() / "search.html").as_uri() + "?q=whose+checkpoint+would+be+lost")
    page.locator("#search-results a", has_text="Troubleshooting").first.wait_for()
    context.close()


@pytest.mark.slow
def test_pages_of_an_older_version_say_so_and_the_switch_leads_to_the_newest(built: Path, chromium, tmp_path: Path):
    (tmp_path / version()).symlink_to(built / version())
    (tmp_path / "99.0").mkdir()
    (tmp_path / "99.0" / "index.html").write_text("<h1>the newest</h1>")
    (tmp_path / "versions.js").write_text(f'window.versions = ["99.0", "{version()}"];\n')
    page = chromium.new_page()
    page.goto((tmp_path / version() / "api/isentropic/algorithm/credit/stare/index.html").as_uri())
    assert f"of version {version()}. The newest is 99.0" in page.locator("article .older-version").inner_text()
    page.locator("#versions").select_option("99.0")
    page.locator("h1", has_text="the newest").wait_for()
    page.close()
