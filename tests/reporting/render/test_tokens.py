# ruff: noqa: RUF001  the page has signs of its own, such as minus
"""The page of tokens: what stands in it, and what a reader with a mouse, a keyboard or a phone gets."""

import json

import pytest

from isentropic.reporting.render.tokens import Sheet, add, load, sheets, write
from isentropic.runs.completions import of_line

EVIL = ["<img src=x onerror=\"document.title='broken'\">", "</script><script>document.title='broken'</script>", "&lt;"]


@pytest.fixture
def file(samples, answer, tmp_path):
    """A page of two runs; in the first, two rollouts of two answers."""
    wrong = {"correct": False, "reward": 0.0, "estimate": [-0.5] * 3, "advantages": [-0.5, -2.5, -0.5]}
    first = samples(*(answer(step=step, **more) for step in (1, 2) for more in ({}, wrong)), folder="stare")
    quiet = {"weight": [1.0] * 3, "advantages": [0.5] * 3, "touched": {}, "clipped": {"low": [], "high": []}}
    second = samples(answer(step=2, kept=[True] * 3, ratio=[1.0] * 3, **quiet), folder="grpo")
    shown = sheets([("stare", first.parent), ("grpo", second.parent), ("none", tmp_path)])
    return write(shown, tmp_path / "tokens.html", "Tokens")


def texts(page, selector):
    return [one.strip() for one in page.locator(selector).all_text_contents()]


def marks(page):
    return page.locator(".tk").evaluate_all("tokens => tokens.map((token) => token.dataset.marks)")


def test_runs_without_answers_are_left_out_or_named(samples, answer, tmp_path):
    samples({"foreign": 1}, folder="foreign")
    samples(answer(), folder="good")
    made = sheets([(name, tmp_path / name) for name in ("foreign", "good", "absent")])
    assert [(sheet.name, len(sheet.answers)) for sheet in made] == [("foreign", 0), ("good", 1)]
    assert "holds no completion" in made[0].notes[0]
    with pytest.raises(ValueError, match=r"tokens\.html would be empty"):
        write(made[:1], tmp_path / "tokens.html", "Tokens")


def test_methods_are_added_to_a_page_and_replaced_by_name(answer, tmp_path):
    page = tmp_path / "page.html"
    for name, weight in (("grpo", 1.0), ("stare", 5.0), ("grpo", 2.0)):
        add(Sheet(name, [of_line(answer(weight=[weight] * 3))], {}, []), page)
    assert [(sheet.name, sheet.answers[0]["weight"]) for sheet in load(page)] == [("grpo", 2.0), ("stare", 5.0)]


def test_a_file_that_is_no_such_page_is_not_written_over(answer, tmp_path):
    (tmp_path / "page.html").write_text("my thesis")
    with pytest.raises(ValueError, match="is there and no page of tokens"):
        add(Sheet("grpo", [of_line(answer())], {}, []), tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "my thesis"


def test_a_reader_sees_at_once_what_was_lifted_and_dropped(file, opened):
    with opened(file) as page:
        assert page.locator(".tk-card").count() == 2
        assert texts(page, ".tk.lifted") == ["b", "b"] and texts(page, ".tk.dropped") == ["c", "c"]
        assert marks(page) == ["", "▲", "✕"] * 2
        assert texts(page, "#tk-facts") == ["6 tokens in 2 answers: 2 clipped, 2 lifted, 2 dropped (by stare, stapo)."]


@pytest.mark.parametrize(
    "mode, expected",
    [
        ("surprisal", ["", "▲", "✕"] * 2),
        ("entropy", ["", "▲", "✕"] * 2),
        ("advantage", ["+", "+▲", "+✕", "−", "−▲", "−✕"]),
        ("weight", ["", "▲", "✕"] * 2),
        ("quadrant", ["+↓", "+↑▲", "+↓✕", "−↑", "−↓▲", "−↑✕"]),
        ("clipped", ["hi", "▲", "✕"] * 2),
    ],
)
def test_every_view_has_marks_beside_its_colours(file, opened, mode, expected):
    with opened(file) as page:
        before = page.locator(".tk").nth(1).evaluate("token => token.style.backgroundColor")
        page.locator(f"input[value={mode}]").check()
        assert marks(page) == expected
        after = page.locator(".tk").nth(1).evaluate("token => token.style.backgroundColor")
        assert (after != before) == (mode != "surprisal")


def test_arrow_keys_walk_over_tokens_and_answers_and_say_what_they_meet(file, opened):
    with opened(file) as page:
        page.locator(".tk").first.focus()
        place = "() => [...document.querySelectorAll('.tk')].indexOf(document.activeElement)"
        for key, expected in [
            ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowRight", 2), ("ArrowDown", 5), ("Home", 3), ("End", 5),
            ("ArrowUp", 2), ("ArrowLeft", 1), ("n", 2), ("n", 3), ("p", 2), ("p", 1),
        ]:  # fmt: skip
            page.keyboard.press(key)
            assert page.evaluate(place) == expected, key
        said = page.locator("#tk-detail").inner_text()
        assert page.locator("#tk-detail").get_attribute("aria-live") == "polite"
        assert "“b”" in said and "+0.5 × 5 = +2.5" in said and "Lifted by stare: it counts 5 times." in said
        assert page.locator(".tk[aria-selected=true]").count() == 1
        assert page.locator(".tk").nth(1).get_attribute("aria-label") == "b, lifted"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "3px"
        page.keyboard.press("ArrowRight")
        assert "Dropped by stapo" in page.locator("#tk-detail").inner_text()


def test_an_answer_is_one_stop_of_the_tab_key(file, opened):
    with opened(file) as page:
        page.locator(".tk").nth(1).click()
        stops = page.locator(".tk[tabindex='0']").evaluate_all("tokens => tokens.map((one) => [one.card, one.place])")
        assert stops == [[0, 1], [1, 0]]


def test_rollout_run_and_answer_are_chosen(file, opened):
    with opened(file) as page:
        assert texts(page, "#tk-step option") == [
            "1 (first, most tokens acted on)",
            "2 (last, middle, many tokens acted on)",
        ]
        page.locator("#tk-answer").select_option("1")
        assert page.locator(".tk-card").count() == 1 and "wrong" in page.locator(".tk-card").inner_text()
        page.locator("#tk-answer").select_option("0")
        page.locator("#tk-step").select_option("2")
        assert texts(page, "#tk-others .tk-card b") == ["grpo"], "the other run gave the same answer"
        page.locator("#tk-sheet").select_option("1")
        assert "no rule or limit acted on any" in page.locator("#tk-facts").inner_text()
        assert page.locator("#tk-next").is_disabled()
        assert "before the policy had moved, so no limit is met" in page.locator("#tk-notes").inner_text()


def test_one_answer_stands_under_every_method(answer, opened, tmp_path):
    for name in ("grpo", "stare", "stapo"):
        add(Sheet(name, [of_line(answer(step=None))], {}, []), tmp_path / "page.html")
    with opened(tmp_path / "page.html") as page:
        assert texts(page, ".tk-card b") == ["grpo, answer 1", "stare", "stapo"]


@pytest.mark.degenerate
def test_what_was_not_logged_is_said(samples, answer, opened, tmp_path):
    older = {key: value for key, value in answer().items() if key in ("step", "group", "logp", "reward", "tokens")}
    file = write(sheets([("old", samples(older).parent)]), tmp_path / "old.html", "Old")
    with opened(file) as page:
        assert page.locator("input[value=surprisal]").is_enabled()
        for mode in ("entropy", "advantage", "weight", "quadrant", "clipped"):
            assert page.locator(f"input[value={mode}]").is_disabled()
        assert "Not logged, and so not shown: entropy, advantage" in page.locator("#tk-notes").inner_text()
        assert texts(page, ".tk") == ["#0", "#1", "#2"]


def test_what_a_model_wrote_stays_text(samples, answer, opened, tmp_path):
    line = answer(texts=EVIL, prompt="".join(EVIL))
    line |= {"touched": {EVIL[0]: [1]}}
    file = write(sheets([(EVIL[1], samples(line).parent)]), tmp_path / "evil.html", EVIL[1])
    with opened(file) as page:
        page.locator(".tk").nth(1).click()
        assert texts(page, ".tk") == EVIL and page.locator("img").count() == 0
        assert EVIL[0] in page.locator("#tk-detail").inner_text()
        assert page.title() == EVIL[1], "no script of the model's ran"
        assert page.locator("h1").inner_text() == EVIL[1]


def test_spaces_and_halves_of_characters_are_shown(samples, answer, opened, tmp_path):
    file = write(sheets([("run", samples(answer(texts=[" ", "", "\n"])).parent)]), tmp_path / "page.html", "Page")
    with opened(file) as page:
        assert texts(page, ".tk") == ["␣", "◌", "↵"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_on_every_colour_can_be_read(file, opened, scheme):
    contrast = """tokens => tokens.map((token) => {
      const parse = (text) => text.match(/\\d+/g).map(Number);
      const light = (rgb) => rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
      const style = getComputedStyle(token), two = [light(parse(style.color)), light(parse(style.backgroundColor))];
      return (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05);
    })"""
    with opened(file, color_scheme=scheme) as page:
        for mode in ("surprisal", "entropy", "advantage", "weight", "quadrant", "clipped"):
            page.locator(f"input[value={mode}]").check()
            assert min(page.locator(".tk").evaluate_all(contrast)) >= 4.5


def test_nothing_sticks_out_on_a_phone(file, opened, samples, answer, tmp_path):
    wide = samples(answer(texts=["x" * 300, " ", "y"], prompt="z" * 500))
    long = write(sheets([("run", wide.parent)]), tmp_path / "long.html", "Long")
    for one in (file, long):
        with opened(one, width=360, height=740, has_touch=True) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            page.locator(".tk").nth(1).tap()
            box = page.locator(".tk-detail").bounding_box()
            assert box and box["y"] + box["height"] <= 741, "details are in sight"


def test_the_page_is_as_large_as_its_answers(file):
    assert file.stat().st_size < 100_000
    assert len(json.dumps(load(file)[0].answers)) < file.stat().st_size
