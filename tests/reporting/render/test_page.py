"""The report's page in a browser: what a reader can do with it by mouse, by keyboard, on a phone and on paper."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from isentropic.commands.report import main

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
    assert reported.stat().st_size < 500_000


def test_every_picture_has_words(reported, opened):
    with opened(reported) as page:
        for picture in page.locator("svg.plot, .spark, .track[role=img]").all():
            assert len(picture.get_attribute("aria-label") or "") > 10
        for picture in page.locator("img").all():
            assert len(picture.get_attribute("alt") or "") > 40
        assert page.locator("img").count() >= 2
        assert page.locator("svg:not([role=img]):not([aria-hidden=true])").count() == 0


def test_curves_go_over_rollouts_tokens_or_seconds(reported, opened):
    with opened(reported) as page:
        plot = page.locator(".chart", has_text="entropy (nats").locator("svg.plot")
        assert "rollouts" in plot.text_content()
        lines = plot.locator(".line").first.get_attribute("d")
        page.get_by_label("generated tokens").check()
        assert "generated tokens" in plot.text_content() and "40k" in plot.text_content()
        assert "target 0.1 ± 20 %" in plot.text_content()
        assert plot.locator(".line").first.get_attribute("d") != lines or lines.count("L") > 10
        assert page.get_by_label("seconds").count() == 1


def test_groups_are_hidden_and_lit(reported, opened):
    with opened(reported) as page:
        groups = page.locator("#rp-charts g[data-group]")
        both = groups.count()
        second = page.locator("#rp-groups input").nth(1)
        second.uncheck()
        assert groups.count() == both / 2
        assert page.locator(".dot-row[data-group='1']").first.is_hidden()
        second.check()
        assert groups.count() == both
        page.locator("#rp-groups input").first.focus()
        assert page.locator("#rp").get_attribute("class") == "lit-0"
        faded = page.locator("#rp-charts g[data-group='1']").first
        page.wait_for_function("one => getComputedStyle(one).opacity < 0.3", arg=faded.element_handle())
        page.locator("#rp-copy").focus()
        assert page.locator("#rp").get_attribute("class") == ""


@pytest.mark.slow
def test_of_many_groups_bands_and_seeds_are_those_of_the_one_pointed_at(tmp_path, opened):
    for recipe in ("grpo", "dapo", "stare", "stapo", "gtpo", "gspo", "cispo"):
        for seed in range(3):
            make(tmp_path / f"{recipe}_{seed}", recipe, seed, rollouts=20, planned=20)
    main([str(tmp_path), "--out", str(tmp_path / "report")])
    shown = "all => all.filter((one) => getComputedStyle(one).display !== 'none').length"
    with opened(tmp_path / "report" / "report.html") as page:
        bands = page.locator(".chart", has_text="entropy (nats").locator(".wide")
        assert bands.count() == 7 and bands.evaluate_all(shown) == 0
        page.locator("#rp-groups label").nth(2).hover()
        assert bands.evaluate_all(shown) == 1
        page.locator("#rp-groups input").nth(2).uncheck()
        page.mouse.move(0, 0)
        assert bands.count() == 6 == bands.evaluate_all(shown), "six can be told apart"


def test_arrow_keys_read_values_off_a_curve(reported, opened):
    with opened(reported) as page:
        chart = page.locator(".chart", has_text="entropy (nats")
        chart.locator("svg.plot").focus()
        page.keyboard.press("End")
        said = chart.locator(".readout")
        assert said.get_attribute("aria-live") == "polite"
        assert said.inner_text().startswith("at 40: grpo 0.03") and "stare 0.1" in said.inner_text()
        page.keyboard.press("Home")
        assert "at 1:" in said.inner_text() and "[" in said.inner_text(), "with the interval of three seeds"
        page.keyboard.press("Escape")
        assert said.inner_text() == ""


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


def test_dark_and_print_and_reduced_motion(reported, opened):
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(reported, color_scheme="dark", reduced_motion="reduce") as page:
        assert page.evaluate(ground) == "rgb(19, 22, 25)"
        row = page.locator(".dot-row").first
        assert row.evaluate("one => getComputedStyle(one).transitionDuration") == "0s"
        page.emulate_media(media="print")
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        assert page.locator("nav").is_hidden() and page.locator("#rp-controls").is_hidden()
        assert page.locator("#runs thead th").first.inner_text() == "run", "heads stay, though they are buttons"
        assert len(page.pdf()) > 10_000


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
        selector = "p, li, th, td, a, label span, button, figcaption, .bad, summary, .dot-label, .dot-value, dt, dd"
        found = page.evaluate(contrast, selector)
        assert len(found) > 100 and [one for one in found if one[0] < 4.5] == []


def test_one_run_without_answers_is_a_page_too(tmp_path, opened):
    make(tmp_path / "only", "grpo", 0)
    main([str(tmp_path / "only"), "--out", str(tmp_path / "report")])
    with opened(tmp_path / "report" / "report.html") as page:
        assert page.locator("#tokens").count() == 0 and page.locator("#odd").count() == 0
        assert page.locator("#rp-charts svg.plot").count() >= 2


def test_names_of_runs_stay_text(tmp_path, opened):
    make(tmp_path / f"{EVIL[:-1]}", "grpo", 0)
    make(tmp_path / "b", "stare", 0)
    main([str(tmp_path), f"<i>&label</i>={tmp_path / 'b'}", "--out", str(tmp_path / "report")])
    with opened(tmp_path / "report" / "report.html") as page:
        assert page.locator("img[src=x]").count() == 0 and page.locator("main i:not([class]):not([style])").count() == 0
        assert EVIL[:-1] in page.locator("#runs").inner_text()
