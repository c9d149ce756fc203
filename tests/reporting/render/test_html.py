import base64
import hashlib
import json
import re

import pytest

from isentropic.reporting.render.html import data, policy, write

BREAKOUT = "</script><script>alert(1)</script><!--"


def test_data_cannot_end_the_element_it_stands_in():
    text = data({"a": BREAKOUT, "b": "\u2028"})
    assert "<" not in text and json.loads(text) == {"a": BREAKOUT, "b": "\u2028"}


@pytest.mark.degenerate
def test_what_json_cannot_say_is_refused():
    with pytest.raises(ValueError):
        data([float("nan")])


def test_only_our_own_scripts_may_run_and_nothing_is_loaded():
    said = policy(["alert(1)"])
    digest = base64.b64encode(hashlib.sha256(b"alert(1)").digest()).decode()
    assert f"script-src 'sha256-{digest}';" in said and said.startswith("default-src 'none'")
    assert "script-src 'none';" in policy([])


def test_a_page_holds_all_it_needs(tmp_path):
    shown = {"kind": "Run", "sheets": []}
    file = write("tokens.html", tmp_path / "new" / "page.html", ["tokens.js"], ["base.css"], title="<i>", tokens=shown)
    text = file.read_text()
    assert "<title>&lt;i&gt;</title>" in text
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"|url\(|@import|https?://', text) == []
