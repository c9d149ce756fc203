import json
import re
from dataclasses import replace

import pytest
import yaml
from fixtures.evaluations import flags

from isentropic.evaluation.agreement import Agreement, Counts
from isentropic.evaluation.card_page import fenced, plain, write_card
from isentropic.evaluation.contamination import write_contamination
from isentropic.evaluation.sets import read

HOSTILE = (
    "</pre></script><script>document.title='x'</script><img src=x onerror=alert(1)>"
    "\x00\u202eevil\u2066 ```\n# no\n| a |"
)


@pytest.fixture
def a_card(an_evaluation, tmp_path):
    """Writes a whole evaluation, of a model that answers with whatever a page must not fall for."""

    def change(one):
        finish = "length" if one.child == 3 else "stop"
        return replace(one, text=HOSTILE + one.text + "\ud800", finish=finish, extracted=one.extracted and HOSTILE)

    def write(name, sets):
        folder = an_evaluation(tmp_path / name, sets, change)
        protocol = {
            "name": HOSTILE, "source": "paper, section 4", "grade": "B", "assumed": {"top_p": HOSTILE},
            "exams": {"all": {"sets": list(sets), "decoding": {"temperature": 1.0, "max_tokens": 31_744}}},
        }  # fmt: skip
        config = {
            "subject": f"logs/train/runs/{'long_name_of_a_run' * 3}/checkpoints/last.ckpt",
            "evaluation": {"protocol": protocol},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        (folder / "versions.json").write_text(json.dumps({"weights": "ab" * 32, "libraries": {"torch": "2.13"}}))
        agreed = Agreement("math", HOSTILE, Counts(9, 1, 1, 9), {}, {})
        (folder / "agreement.json").write_text(json.dumps([agreed.report()]))
        return folder

    return write


SETS = {
    "aime24": flags([32, 20, 9, 0, 0, 1, 0, 4], 32),
    "math500[100]": flags([4, 3, 4, 2, 0, 4], 4),
    "minerva": flags([1, 0, 1], 1),
}


def made(a_card):
    ours, theirs = a_card("ours", SETS), a_card("theirs", {**SETS, "aime24": flags([2] * 8, 32)})
    sheets = read(ours)
    write_contamination(ours, [sheets[0].problems[0].question], ["dapo_math_17k"], sheets)
    write_card(ours, "isentropic eval subject=models/Qwen2.5-Math-7B evaluation/protocol=stare", theirs)
    return ours


def test_a_page_runs_and_loads_nothing_and_shows_every_sign(a_card):
    text = (made(a_card) / "card.html").read_text(encoding="utf-8")
    assert "<script" not in text and "<img" not in text and not re.search("[\x00\u202a-\u202e\u2066-\u2069]", text)
    assert "⟨U+202E⟩evil" in text and "⟨U+0000⟩" in text and "⟨U+D800⟩" in text
    assert re.findall(r'(?:src|href)="(?!#|data:|card\.|scores\.|answers\.)[^"]*"|url\(|@import|https?://', text) == []
    for told in (
        "over problems",
        "given these problems",
        "1 of 8",
        "&lt;|user|&gt;",
        "Cut off",
        "31744",
        "math and ",
        "kappa 0.800",
    ):
        assert told in text, told


def test_the_same_stands_in_markdown_and_json(a_card):
    folder = made(a_card)
    text = (folder / "card.md").read_text(encoding="utf-8")
    assert (
        "| set | avg@k | pass@k | maj@k |" in text
        and "````" in text
        and not re.search(r"(?<!\\)<script", text.split("## Answers")[0])
    )
    assert "\n# no" not in re.sub(r"````text\n.*?\n````", "", text, flags=re.DOTALL)
    card = json.loads((folder / "card.json").read_text())
    assert list(card["sets"]) == list(SETS) and card["against"]["sets"][1]["verdict"] == "open"


def test_weights_are_told_by_the_begin_of_their_hash_and_a_server_s_by_what_it_has_read(a_card):
    folder = made(a_card)
    assert "weights abababababababab\n" in (folder / "card.md").read_text(encoding="utf-8")
    served = "/models/Qwen2.5-Math-7B, as served by vLLM 0.28.0"
    (folder / "versions.json").write_text(json.dumps({"weights": served}))
    write_card(folder)
    assert f"weights {served}\n" in (folder / "card.md").read_text(encoding="utf-8")


def test_a_fence_is_longer_than_any_in_the_text():
    assert fenced("a ```` b").startswith("`````text\n")
    assert plain("a\nb\tc") == "a\nb\tc" and plain("\u200b") == "⟨U+200B⟩"


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_the_page_fits_its_window_in_a_browser(a_card, opened, width, scheme):
    with opened(made(a_card) / "card.html", width=width, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.title() != "x" and page.locator("#scores tbody tr").count() == 3
        size = page.locator(".curve text").first.evaluate("one => one.getBoundingClientRect().height")
        assert size > 9, "numbers of the curve can be read"
        ends = page.evaluate("[...document.querySelectorAll('td')].map(one => one.getBoundingClientRect().right)")
        assert width > 360 or max(ends) <= width
