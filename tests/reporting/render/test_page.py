"""The report's page in a browser: what a reader can do with it by mouse, by keyboard, on a phone and on paper."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from isentropic.commands.report import main
from isentropic.reporting.render.page import DRAWN, spark
from isentropic.runs.metrics import Series
from isentropic.runs.run import Run

EVIL = "<img src=x onerror=alert(1)>"


def make(folder: Path, recipe: str, seed: int, answers=(), rollouts=40, planned=40, level=0.1):
    """A run of few metrics that ends where it is told to."""
    folder.mkdir(parents=True)
    credit = {recipe: {"top": 0.1}} if recipe != "grpo" else {}
    config = {"seed": seed, "rollout": {"steps": planned}, "algorithm": {"credit": credit}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump([f"algorithm={recipe}", f"seed={seed}"]))
    draw = np.random.default_rng(seed)
    names = ["step", "entropy/mean", "rollout/reward", "control/target", "eval/avg@8"]
    names += ["throughput/step_seconds", "throughput/tokens_per_second"]
    rows = [",".join(names)]
    for step in range(1, rollouts + 1):
        entropy = 0.3 - (0.3 - level) * min(1, step / 20) + 0.002 * draw.normal()
        scored = f"{0.2 + 0.004 * step + 0.01 * draw.normal():.4f}" if step % 10 == 0 else ""
        rows.append(f"{step},{entropy:.4f},{0.2 + 0.005 * step:.4f},0.1,{scored},2.0,500")
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    if answers:
        (folder / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in answers))


@pytest.fixture(scope="session")
def reported(tmp_path_factory, answer):
    """Three seeds each of two methods, one run of which stopped early; with answers of one of them."""
    home = tmp_path_factory.mktemp("sweep")
    for seed in range(3):
        make(home / f"grpo_{seed}", "grpo", seed, level=0.03)
        make(home / f"stare_{seed}", "stare", seed, [answer()] if seed == 0 else ())
    make(home / "grpo_3", "grpo", 3, rollouts=11)
    main([str(home), "--out", str(home / "report")])
    return home / "report" / "report.html"


@pytest.mark.slow
def test_the_page_opens_without_a_network_and_says_what_there_is(reported, opened):
    with opened(reported) as page:
        assert page.locator("h1").inner_text().startswith("7 runs")
        assert [one.lower() for one in page.locator("nav a").all_inner_texts()] == [
            "summary", "odd runs 3", "scores", "curves", "entropy", "runs", "tokens",
        ]  # fmt: skip
        for link in page.locator("nav a").all():
            assert page.locator(link.get_attribute("href")).is_visible()
        odd = page.locator("#odd").inner_text()
        assert "grpo_3" in odd and "11 of 40" in odd
        assert page.locator("#entropy tbody tr").count() == 7
        assert page.locator("#entropy .spark").count() == 7
        assert page.locator("#tokens .tk").count() == 3
    assert reported.stat().st_size < 1_000_000


@pytest.mark.slow
def test_every_picture_that_was_drawn_is_on_the_page_with_words(reported, opened):
    drawn = {file.read_bytes() for file in (reported.parent / "figures").glob("*.svg")}
    with opened(reported) as page:
        pictures = page.locator("figure img")
        sources = pictures.evaluate_all("all => all.map((one) => one.src.split(';base64,')[1])")
        assert {base64.b64decode(one) for one in sources} == drawn and len(sources) == len(drawn) > 10
        page.evaluate("Promise.all([...document.images].map((one) => one.decode()))")
        assert min(pictures.evaluate_all("all => all.map((one) => one.naturalWidth)")) > 200
        assert min(len(words) for words in pictures.evaluate_all("all => all.map((one) => one.alt)")) > 40
        for picture in page.locator(".spark").all():
            assert len(picture.get_attribute("aria-label") or "") > 10
        assert page.locator("svg:not([role=img]):not([aria-hidden=true])").count() == 0


def test_curves_go_over_rollouts_and_by_the_keyboard_over_tokens_or_seconds(reported, opened):
    with opened(reported) as page:
        over = page.locator("#curves > details")
        heads = over.locator("> summary").all_inner_texts()
        assert heads == ["Over rollouts", "Over generated tokens", "Over seconds, without evaluation"]
        tokens = over.nth(1).locator("figure", has_text="entropy (nats per token), over generated tokens")
        assert over.nth(0).locator("img").first.is_visible() and not tokens.is_visible()
        over.nth(1).locator("> summary").focus()
        page.keyboard.press("Enter")
        assert tokens.locator("img").is_visible()


@pytest.mark.slow
def test_a_picture_too_large_for_the_page_is_linked(reported, opened, svg_alone, tmp_path):
    from isentropic.commands import report

    drawing = report.findings

    def grown(*arguments, **more):
        found = drawing(*arguments, **more)
        with (arguments[-1] / "overview.svg").open("a") as file:
            file.write(" " * DRAWN)
        return found

    report.findings = grown
    try:
        main([str(reported.parents[1]), "--out", str(tmp_path)])
    finally:
        report.findings = drawing
    with opened(tmp_path / "report.html") as page:
        link = page.locator("#curves figure").first.locator("p > a")
        assert link.get_attribute("href") == "figures/overview.svg" and "entropy" in link.inner_text()


def of_entropy(entropy):
    steps = np.arange(1, len(entropy) + 1)
    metrics = {"entropy/mean": Series(steps, np.array(entropy))} if len(entropy) else {}
    return Run(Path("run"), "", {}, (), "done", "", metrics, {}, [])


def test_a_run_s_entropy_is_a_line_from_the_top_to_the_floor():
    points = [tuple(map(float, point.split(","))) for point in spark(of_entropy([0.4] * 30 + [0.0] * 30), 0.4).split()]
    assert points[0] == (0.0, 1.0) and points[-1] == (100.0, 24.0) and len(points) == 60
    assert all(0 <= x <= 100 and 1 <= y <= 24 for x, y in points)


@pytest.mark.degenerate
@pytest.mark.parametrize("entropy, top", [([], 0.4), ([0.3], 0.4), ([0.0, 0.0], 0.0)])
def test_what_is_no_line_is_not_drawn(entropy, top):
    assert spark(of_entropy(entropy), top) == ""


def test_tables_are_sorted_by_the_keyboard(reported, opened):
    with opened(reported) as page:
        table = page.locator("#runs table").first
        head = table.locator("thead th", has_text="rollouts")
        head.locator("button").focus()
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert table.locator("tbody th").first.inner_text() == "grpo_3"
        page.keyboard.press("Space")
        assert head.get_attribute("aria-sort") == "descending"
        assert table.locator("tbody th").last.inner_text() == "grpo_3"


def test_links_of_runs_lead_to_their_folders(reported, opened):
    with opened(reported) as page:
        links = page.locator("#runs tbody th a").evaluate_all("all => all.map((a) => a.getAttribute('href'))")
        assert len(links) == 7 and all((reported.parent / link).is_dir() for link in links)
        beside = page.locator("footer a").evaluate_all("all => all.map((a) => a.getAttribute('href'))")
        figures = page.locator(".files a").evaluate_all("all => all.map((a) => a.getAttribute('href'))")
        assert figures and all((reported.parent / link).exists() for link in [*beside, *figures])


def test_the_command_is_copied(reported, opened):
    with opened(reported, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.locator("#rp-copy").click()
        page.wait_for_function("document.getElementById('rp-copied').textContent !== ''")
        assert page.locator("#rp-command").inner_text().startswith("isentropic report ")
        assert page.locator("#rp-copied").text_content().startswith(("Copied", "Selected"))


@pytest.mark.parametrize("width", [360, 412, 768])
def test_nothing_sticks_out_of_a_small_screen(reported, opened, width):
    with opened(reported, width=width, height=740) as page:
        for details in page.locator("details").all():
            details.evaluate("one => { one.open = true; }")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        table = page.locator("#entropy .scroll")
        assert table.evaluate("box => box.scrollWidth > box.clientWidth") and table.get_attribute("tabindex") == "0"


@pytest.mark.slow
def test_dark_and_print(reported, opened):
    ground = "getComputedStyle(document.body).backgroundColor"
    turned = "one => getComputedStyle(one).filter"
    with opened(reported, color_scheme="dark") as page:
        assert page.evaluate(ground) == "rgb(19, 22, 25)"
        picture = page.locator("figure img").first
        assert "invert" in picture.evaluate(turned), "a picture is dark on a dark page"
        page.emulate_media(media="print")
        assert page.evaluate(ground) == "rgb(255, 255, 255)" and picture.evaluate(turned) == "none"
        assert page.locator("nav").is_hidden() and page.locator(".files").first.is_hidden()
        assert page.locator("#runs thead th").first.inner_text() == "run", "heads stay, though they are buttons"
        folded = "[...document.querySelectorAll('#scores > details, #runs > details')].filter(one => !one.open).length"
        page.evaluate(f"addEventListener('beforeprint', () => window.printed = {folded})")
        before = page.evaluate(folded)
        assert len(page.pdf()) > 10_000
        assert page.evaluate("window.printed") == 0 < before == page.evaluate(folded), "paper cannot be unfolded"
    with opened(reported, color_scheme="light") as page:
        assert page.locator("figure img").first.evaluate(turned) == "none"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(reported, opened, scheme):
    contrast = """selector => [...document.querySelectorAll(selector)].filter((one) => one.offsetParent).map((one) => {
      const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((c) => (c /= 255) <= 0.04045 ? c / 12.92
        : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
      let ground = one;
      while (/, 0\\)$/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
      const two = [light(getComputedStyle(one).color), light(getComputedStyle(ground).backgroundColor)];
      return [(Math.max(...two) + 0.05) / (Math.min(...two) + 0.05), one.outerHTML.slice(0, 80)];
    })"""
    with opened(reported, color_scheme=scheme) as page:
        selector = "p, li, th, td, a, button, figcaption, .note, .bad, summary, dt, dd"
        found = page.evaluate(contrast, selector)
        assert len(found) > 100 and [one for one in found if one[0] < 4.5] == []


@pytest.mark.slow
def test_one_run_without_answers_is_a_page_too(tmp_path, opened, svg_alone):
    make(tmp_path / "only", "grpo", 0)
    main([str(tmp_path / "only"), "--out", str(tmp_path / "report")])
    with opened(tmp_path / "report" / "report.html") as page:
        assert page.locator("#tokens").count() == 0 and page.locator("#odd").count() == 0
        assert page.locator("#curves img").count() >= 2


@pytest.mark.slow
def test_names_of_runs_stay_text(tmp_path, opened, svg_alone):
    make(tmp_path / f"{EVIL[:-1]}", "grpo", 0)
    make(tmp_path / "b", "stare", 0)
    main([str(tmp_path), f"<i>&label</i>={tmp_path / 'b'}", "--out", str(tmp_path / "report")])
    with opened(tmp_path / "report" / "report.html") as page:
        assert page.locator("img[src=x]").count() == 0 and page.locator("main i:not([class]):not([style])").count() == 0
        assert EVIL[:-1] in page.locator("#runs").inner_text()
