import json

import pytest

from isentropic.runs.samples import STEPS, choose

NOTHING = {"touched": {"stare": []}, "clipped": {"low": []}}


def test_first_middle_last_and_busiest_rollouts_are_chosen(samples, answer):
    lines = [answer(step=step, **({} if step in (4, 8) else NOTHING)) for step in range(1, 12)]
    lines[7]["clipped"] = {"low": []}  # fewer tokens acted on than in rollout 4
    seen = choose(samples(*lines), 100_000)
    assert seen.reasons == {
        1: "first", 4: "most tokens acted on", 6: "middle", 8: "many tokens acted on", 11: "last",
    }  # fmt: skip
    assert [one["step"] for one in seen.answers] == [1, 4, 6, 8, 11]
    assert seen.notes == [
        "Of 11 rollouts in samples.jsonl, 5 are on this page: 1 (first), 4 (most tokens acted on), 6 (middle), 8 (many "
        "tokens acted on), 11 (last)."
    ]


def test_never_more_rollouts_than_the_most(samples, answer):
    assert len(choose(samples(*(answer(step=step) for step in range(30))), 10**6).reasons) == STEPS


def test_of_a_short_file_all_is_shown_without_a_note(samples, answer):
    seen = choose(samples(answer(step=1), answer(step=2)), 10**6)
    assert seen.reasons == {1: "first, most tokens acted on", 2: "last, middle, many tokens acted on"}
    assert seen.notes == []


def test_a_page_does_not_outgrow_its_size(samples, answer):
    lines = [answer(step=step) for step in (1, 2, 3) for _ in range(4)]
    one = len(json.dumps(choose(samples(lines[0]), 10**6).answers[0]))
    seen = choose(samples(*lines), 5 * one)
    assert len(seen.answers) == 5 and seen.reasons.keys() == {1, 3}, "the last rollout first"
    assert seen.notes[1] == "Of these rollouts, 3 more answers are in the file alone."
    assert len(choose(samples(*lines), 1).answers) == 1, "one answer, however long"


def test_groups_with_right_and_wrong_answers_go_before_others(samples, answer):
    lines = [answer(group=group, correct=correct) for group in range(5) for correct in (False, group == 3)]
    assert {one["group"] for one in choose(samples(*lines), 10**6).answers} == {"0", "1", "3"}


@pytest.mark.degenerate
def test_lines_that_cannot_be_read_are_counted(samples, answer):
    file = samples(answer(step=1), {"foreign": 1}, [1], answer(step=2, logp=["x"]), end=json.dumps(answer())[:40])
    seen = choose(file, 10**6)
    assert len(seen.answers) == 1 and seen.notes == ["4 lines of samples.jsonl left out, which could not be read."]


@pytest.mark.degenerate
@pytest.mark.parametrize("lines", [[], [{"foreign": 1}]])
def test_a_file_without_a_completion_is_one_sentence(samples, lines):
    with pytest.raises(ValueError, match=r"samples\.jsonl holds no completion that could be read"):
        choose(samples(*lines), 10**6)


def test_an_older_file_is_judged_by_what_was_kept_and_by_unusual_advantages(samples, answer):
    older = [answer(step=step, kept=[True] * 3, advantages=[1.0] * 3) for step in (1, 2, 3, 4, 5)]
    older[1]["advantages"] = [1.0, 5.0, 1.0]
    for one in older:
        del one["touched"], one["clipped"]
    assert choose(samples(*older), 10**6).reasons[2] == "most tokens acted on"
