"""Run folders by hand, and a real browser without a network."""

import json
import shutil
from contextlib import contextmanager

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def completion(step=1, group=0, texts=("a", "b", "c"), **more):
    """One completion as a run writes it: the second token is lifted, the third dropped, the first clipped."""
    values = {
        "step": step, "prompt": "1+1=", "completion": "".join(texts), "reward": 1.0, "correct": True,
        "truncated": False, "group": group, "tokens": list(range(len(texts))), "texts": list(texts),
        "logp": [-0.5, -2.0, -0.1], "entropy": [1.0, 0.5, 0.2], "estimate": [0.5, 0.5, 0.5],
        "advantages": [0.5, 2.5, 0.5], "weight": [1.0, 5.0, 1.0], "ratio": [1.3, 1.0, 1.0],
        "kept": [True, True, False], "limits": {"low": 0.8, "high": 1.28}, "clipped": {"low": [], "high": [0]},
        "touched": {"stare": [1], "stapo": [2]},
    }  # fmt: skip
    return values | more


@pytest.fixture(scope="session")
def answer():
    return completion


@pytest.fixture
def samples(tmp_path):
    """Lines to a `samples.jsonl` in a folder of a name."""

    def write(*lines, folder="run", end=""):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines) + end)
        return place / "samples.jsonl"

    return write


@pytest.fixture(scope="session")
def chromium():
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser to open pages in: none of {', '.join(BROWSERS)} is on the path")
    with sync.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """A page from disk in a browser that has no network; whatever the console says or the page asks for is an error."""

    @contextmanager
    def open_page(file, width=1280, height=900, **settings):
        context = chromium.new_context(viewport={"width": width, "height": height}, offline=True, **settings)
        page, wrong = context.new_page(), []
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        yield page
        context.close()
        assert [one for one in wrong if not one.startswith("data:")] == []

    return open_page
