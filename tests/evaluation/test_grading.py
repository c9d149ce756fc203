"""Several graders on kept answers: who decides, who is asked, and what is counted."""

import json
from dataclasses import dataclass, field

import pytest

from isentropic.evaluation.agreement import Counts, agreements, disagreements
from isentropic.evaluation.answers import Answered, Asked, add, read_answers, write_problems
from isentropic.evaluation.grade_boxed_string import BoxedString
from isentropic.evaluation.grade_integer import Integer
from isentropic.evaluation.grader import Grade, Grader, Item
from isentropic.evaluation.grading import graded, judged
from isentropic.evaluation.regrade import regrade
from isentropic.evaluation.set_checks import check_golds, repeated, unjudgeable
from isentropic.runs.lock import locked


@dataclass
class Lenient(Grader):
    """Calls right what ends in the gold, and remembers what it was asked."""

    name: str = "lenient"
    only_wrong: bool = True
    doubt: float = 0.0
    seed: int = 0
    asked: list[str] = field(default_factory=list)

    def grade(self, items):
        self.asked += [item.text for item in items]
        return [
            Grade(item.text.endswith(item.gold), "right" if item.text.endswith(item.gold) else "wrong", None)
            for item in items
        ]


def problem(row, gold, name="aime24", question=None):
    return Asked(name, f"{row:016x}", row, question or f"q{row}?", gold, "p", "h", 3)


def answer(row, child, text, name="aime24", verdicts=None):
    statuses = {grader: "right" if right else "wrong" for grader, right in (verdicts or {}).items()}
    return Answered(
        name, f"{row:016x}", child, 0, text, 4, "stop", "kept" if verdicts else None, verdicts or {}, statuses, 0.1
    )


INTEGER, BOXED = Integer("integer", "Answer:"), BoxedString("boxed_string")
PROBLEMS = [problem(0, "25"), problem(1, "7")]
TEXTS = [r"\boxed{25}", r"\boxed{025}", r"\boxed{26}", "none, 25"], [r"\boxed{7}", r"\boxed{8}", "Answer: 7", "7.5"]
ANSWERS = [answer(row, child, text) for row in (0, 1) for child, text in enumerate(TEXTS[row])]


def test_the_first_grader_decides_and_the_others_stand_beside_it():
    found = graded(ANSWERS, PROBLEMS, [INTEGER, BOXED])[0]
    assert [one.right for one in found] == [True, True, False, False, True, False, True, False]
    assert [one.verdicts["boxed_string"] for one in found] == [True, False, False, False, True, False, False, False]
    assert [one.extracted for one in found] == ["25", "25", "26", None, "7", "8", "7", None]
    assert [one.key for one in found] == [one.key for one in ANSWERS]
    items = [Item(PROBLEMS[row].question, PROBLEMS[row].gold, text) for row in (0, 1) for text in TEXTS[row]]
    grades = judged(items, [one.key for one in ANSWERS], {"integer": INTEGER, "boxed_string": BOXED})
    assert {name: [grade.right for grade in of] for name, of in grades.items()} == {
        name: [one.verdicts[name] for one in found] for name in ("integer", "boxed_string")
    }


def test_verdicts_of_before_stay_and_go_on_to_decide():
    before = [answer(0, 0, r"\boxed{25}", verdicts={"integer": False}), answer(0, 1, "-", verdicts={"integer": False})]
    found = graded(before, PROBLEMS, [BOXED, INTEGER])[0]
    assert [dict(one.verdicts) for one in found] == [
        {"integer": False, "boxed_string": True, "integer.2": True},
        {"integer": False, "boxed_string": False, "integer.2": False},
    ]
    assert [one.right for one in found] == [False, False] and found[0].extracted == "kept"
    again = graded(found, PROBLEMS, [BOXED])[0]
    assert again == found, "what a grader has said before is not kept twice"
    assert graded(found, PROBLEMS, [INTEGER, BOXED]) == (found, ["integer.2", "boxed_string"])
    more = [*found, answer(0, 2, r"\boxed{25}", verdicts={"integer": False})]
    assert [list(one.verdicts) for one in graded(more, PROBLEMS, [BOXED])[0]][1:] == [
        ["integer", "boxed_string", "integer.2"], ["integer", "boxed_string"],
    ], "what was asked since is judged under the same name"  # fmt: skip


def test_a_grader_of_wrong_answers_can_only_raise_the_score():
    lenient = Lenient()
    found = graded(ANSWERS, PROBLEMS, [BOXED, lenient])[0]
    assert lenient.asked == [one.text for one in found if not one.verdicts["boxed_string"]]
    assert [one.verdicts["lenient"] for one in found] == [True, False, False, True, True, False, True, False]
    assert [one.statuses["lenient"] for one in found][:2] == ["not asked", "wrong"]
    with pytest.raises(
        ValueError, match="lenient is asked about what another grader calls wrong; name that one before"
    ):
        graded(ANSWERS, PROBLEMS, [Lenient()])


def test_a_share_of_the_right_answers_is_asked_about_and_what_is_doubted_stays_right():
    right = [answer(0, child, r"\boxed{25}", verdicts={"boxed_string": True}) for child in range(2_000)]
    lenient = Lenient(doubt=0.05)
    found = graded(right, PROBLEMS, [lenient])[0]
    assert 60 < len(lenient.asked) < 140
    statuses = [one.statuses["lenient"] for one in found]
    assert statuses.count("doubted") == len(lenient.asked) and statuses.count("not asked") == 2_000 - len(lenient.asked)
    assert all(one.verdicts["lenient"] for one in found)
    again = graded(list(reversed(right)), PROBLEMS, [Lenient(doubt=0.05)])[0]
    assert [one.statuses["lenient"] for one in reversed(again)] == statuses, "whatever the order"
    other = graded(right, PROBLEMS, [Lenient(doubt=0.05, seed=1)])[0]
    assert [one.statuses["lenient"] for one in other] != statuses
    (pair,) = agreements(found)
    assert pair.upper == {
        "lenient": {"confirmed": 0, "doubted": len(lenient.asked), "not asked": 2_000 - len(lenient.asked)}
    }
    assert "lenient is an upper reading: of right answers it confirmed 0 and doubted" in pair.sentence()
    assert len(list(disagreements(found, PROBLEMS))) == len(lenient.asked)


def test_an_answer_to_an_unknown_problem_is_refused():
    with pytest.raises(ValueError, match=r"an answer is to problem 0{15}9 of aime24, which is not among the problems"):
        graded([answer(9, 0, "")], PROBLEMS, [BOXED])


@pytest.mark.golden
@pytest.mark.parametrize(
    ("counts", "agreement", "kappa"),
    [
        (Counts(20, 5, 10, 15), 0.7, 0.4),  # chance: (25 * 30 + 25 * 20) / 50² = .5
        (Counts(45, 15, 25, 15), 0.6, 0.130434782608696),  # by hand: (.6 - .54) / (1 - .54)
        (Counts(0, 5, 5, 0), 0.0, -1.0),
        (Counts(5, 0, 0, 5), 1.0, 1.0),
        (Counts(0, 3, 0, 7), 0.7, 0.0),  # one class for one of them
        (Counts(8, 0, 0, 0), 1.0, None),
        (Counts(0, 0, 0, 8), 1.0, None),
    ],
)
def test_kappa_is_agreement_beyond_chance_and_undefined_where_there_is_one_class(counts, agreement, kappa):
    assert counts.agreement == pytest.approx(agreement)
    assert counts.kappa == (None if kappa is None else pytest.approx(kappa))
    assert counts.report()["kappa"] == ("undefined: one class" if kappa is None else pytest.approx(kappa))


def test_pairs_are_counted_by_set_over_the_answers_that_both_have_judged():
    sets = [problem(0, "25"), problem(0, "4", "amc23")]
    first = [answer(0, 0, r"\boxed{025}"), answer(0, 0, r"\boxed{4}", "amc23"), answer(0, 1, r"\boxed{5}", "amc23")]
    found = [*graded(first, sets, [INTEGER, BOXED])[0], answer(0, 2, "", verdicts={"integer": True})]
    (pair,) = agreements(found)
    assert (pair.first, pair.second, pair.all) == ("integer", "boxed_string", Counts(1, 1, 0, 1))
    assert pair.sets == {"aime24": Counts(0, 1, 0, 0), "amc23": Counts(1, 0, 0, 1)}
    assert agreements(first) == []


def kept(folder):
    folder.mkdir(exist_ok=True)
    write_problems(folder, PROBLEMS)
    add(folder, graded(ANSWERS, PROBLEMS, [INTEGER])[0])
    return folder


def test_a_folder_is_graded_again_with_old_verdicts_beside_the_new(tmp_path):
    folder = kept(tmp_path / "eval")
    (folder / "scores.json").write_text("{}")
    scores, (pair,) = regrade(folder, [BOXED])
    average = {"value": 0.25, "low": 0.25, "high": 0.25, "error_over_problems": 0, "error_given_problems": 0.03125**0.5}
    average = pytest.approx(average)
    assert scores["boxed_string"]["aime24"] == {
        "problems": 2, "answers": 8, "statuses": {"right": 2, "unparseable": 3, "wrong": 3}, "avg": average,
    }  # fmt: skip
    assert json.loads((folder / "scores.boxed_string.json").read_text())["sets"] == scores["boxed_string"]
    assert (folder / "scores.json").read_text() == "{}"
    after = read_answers(folder)
    assert [list(one.verdicts) for one in after] == [["integer", "boxed_string"]] * 8
    assert [one.right for one in after] == [True, True, False, False, True, False, True, False]
    assert pair.all == Counts(2, 2, 0, 4)
    (told,) = json.loads((folder / "agreement.json").read_text())
    assert told["kappa"] == pytest.approx(0.5)
    assert (told["graders"], told["first"], told["second"]) == (["integer", "boxed_string"], 2, 0)
    cases = [json.loads(line) for line in (folder / "disagreements.jsonl").read_text().splitlines()]
    assert [(case["gold"], case["text"]) for case in cases] == [("25", r"\boxed{025}"), ("7", "Answer: 7")]
    whole = (folder / "answers.jsonl").read_text()
    regrade(folder, [BOXED])
    assert (folder / "answers.jsonl").read_text() == whole


def test_a_folder_without_answers_or_in_use_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no problems\.jsonl; it is not the folder of an evaluation"):
        regrade(tmp_path, [BOXED])
    write_problems(tmp_path, PROBLEMS)
    with pytest.raises(ValueError, match=r"holds no answers yet; there is nothing to judge"):
        regrade(tmp_path, [BOXED])
    folder = kept(tmp_path / "eval")
    with locked(folder), pytest.raises(ValueError, match="eval"):
        regrade(folder, [BOXED])


def test_golds_that_no_answer_can_meet_are_listed_and_refused():
    asked = [problem(0, "25"), problem(1, r"\pi"), problem(2, "x+1"), problem(0, "3", "amc23")]
    assert [one.row for one in unjudgeable(asked, INTEGER)] == [1, 2]
    assert unjudgeable(asked, BOXED) == []
    with pytest.raises(
        ValueError, match=r"2 of 3 golds of aime24 are not right by integer itself \(row 1: .*; allow_un"
    ):
        check_golds(asked, INTEGER, allow_unjudgeable=False)
    (note,) = check_golds(asked, INTEGER, allow_unjudgeable=True)
    assert "'x+1'" in note and "amc23" not in note
    assert check_golds(asked, BOXED, allow_unjudgeable=False) == []


def test_rows_that_ask_the_same_are_counted_and_said():
    asked = [problem(0, "25", question="a?"), problem(1, "25", question="a?"), problem(0, "3", "amc23")]
    assert repeated(asked) == ["1 of 2 rows of aime24 ask what an earlier row asks; each row counts"]
    assert repeated(asked[1:]) == []
