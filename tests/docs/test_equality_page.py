"""The tables of docs/equality.md say what the judge says."""

import re
from pathlib import Path

import pytest

from isentropic.task.equality import grade, judge

PAGE = (Path(__file__).parents[2] / "docs" / "equality.md").read_text(encoding="utf-8")
ROW = re.compile(r"\| (`.+`) \| (`.+`) \| (right|wrong|unsimplified) \| .+ \|")
QUOTED = re.compile(r"`([^`]+)`")


def rows(title):
    """Golds, answers and the verdict of each row of a section's table."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    found = [ROW.fullmatch(line) for line in section.splitlines() if line.startswith("| `")]
    assert all(found), "a row that this test does not read"
    return [(*map(QUOTED.findall, (row[1], row[2])), row[3]) for row in found]


def verdict(gold, answer):
    return (grade(gold, answer, "####", "strict") if "boxed" in answer or "####" in answer else judge(gold, answer))[2]


@pytest.mark.parametrize("title", ["Words, boxes and letters", "Arguable cases"])
def test_each_row_is_judged_as_it_says(title):
    found = [
        (gold, answer, said, verdict(gold, answer))
        for golds, answers, said in rows(title)
        for gold in golds
        for answer in answers
    ]
    assert len(found) > 30
    wrong = ("wrong", "unparseable", "unsimplified")
    assert [one for one in found if one[3] not in (wrong if one[2] == "wrong" else (one[2],))] == []
