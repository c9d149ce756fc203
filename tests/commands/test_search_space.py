from types import SimpleNamespace

import pytest

from isentropic.commands.search_space import Choices, Range, given, metrics_files, parse, table, values_of


def test_ranges_and_choices_are_searched_and_all_else_is_fixed():
    fixed, spaces = parse(
        ["experiment=quickstart", "a.boost=1.5..8", "lr=log:1e-5..1E-3", "group=4..16", "algorithm=grpo,stare",
         "'algorithm/credit=[stapo,stare]'", "algorithm/credit=[a,b]", "task.pattern=1..9+1..9", "~x", "tags=\"a,b\""]
    )  # fmt: skip
    assert spaces == [
        Range("a.boost", 1.5, 8.0, whole=False, log=False),
        Range("lr", 1e-5, 1e-3, whole=False, log=True),
        Range("group", 4.0, 16.0, whole=True, log=False),
        Choices("algorithm", ["grpo", "stare"]),
    ]
    assert fixed == ["experiment=quickstart", "'algorithm/credit=[stapo,stare]'", "algorithm/credit=[a,b]",
                     "task.pattern=1..9+1..9", "~x", "tags=\"a,b\""]  # fmt: skip


@pytest.mark.parametrize(
    ("override", "what"),
    [("a=1", "nothing is searched"), ("a=2..1", "a=2..1 is no range"), ("a=log:0..1", "a=log:0..1 must start above 0")],
)
def test_what_cannot_be_searched_is_refused(override, what):
    with pytest.raises(ValueError, match=what):
        parse([override])


def test_numbers_are_given_with_four_digits():
    assert given({"a": 0.123456, "b": 3, "c": "stare", "lr": 1.23456e-5}) == [
        "a=0.1235",
        "b=3",
        "c=stare",
        "lr=1.235e-05",
    ]


def trial(number: int, boost: float, value: float | None, state: str, step: int) -> SimpleNamespace:
    return SimpleNamespace(
        number=number, params={"a.boost": boost}, value=value, state=SimpleNamespace(name=state), last_step=step
    )


def test_the_table_puts_the_best_first_and_ends_with_its_command():
    trials = [trial(0, 2.0, 0.25, "COMPLETE", 260), trial(1, 3.0, 0.5, "PRUNED", 52), trial(2, 4.0, None, "FAIL", 0),
              trial(3, 5.0, 0.375, "COMPLETE", 260)]  # fmt: skip
    assert table(trials, ["experiment=quickstart", "'a=[b]'"], ["a.boost"], "eval/avg@8").splitlines() == [
        "| trial | boost | eval/avg@8 | rollouts | state |",
        "| --- | --- | --- | --- | --- |",
        "| 3 | 5 | 0.375 | 260 | done |",
        "| 0 | 2 | 0.25 | 260 | done |",
        "| 1 | 3 | 0.5 | 52 | stopped |",
        "| 2 | 4 |  | 0 | failed |",
        "",
        "best, to be judged on the test split with other seeds:",
        """isentropic train experiment=quickstart ''"'"'a=[b]'"'"'' a.boost=5""",
    ]
    assert "no trial came to its end" in table(trials[1:3], [], ["a.boost"], "eval/avg@8")


def test_values_are_read_from_all_parts_of_a_run_but_not_from_a_line_that_is_being_written(tmp_path):
    for number in (2, 10):
        (tmp_path / f"metrics.{number}.csv").write_text(f"eval/avg@8,step\n0.25,{number}\n,{number}\n")
    (tmp_path / "metrics.csv").write_text("step,eval/avg@8\n12,0.5\n13,0.")
    assert [file.name for file in metrics_files(tmp_path)] == ["metrics.2.csv", "metrics.10.csv", "metrics.csv"]
    assert values_of(tmp_path, "eval/avg@8") == [(2, 0.25), (10, 0.25), (12, 0.5)]
    assert values_of(tmp_path, "eval/avg@16") == []
