import json

import pytest

from isentropic.commands.words import count, main, sets_of


def test_tokens_are_counted_by_rule_side_and_set(answer):
    # surprisals 0.5, 2, 0.1 against entropies of 1, 0.5, 0.2
    wrong = answer(texts=("a", "x", "a"), estimate=[-0.5, -0.5, 0.0])
    written, lists = count([answer(), wrong])
    assert written == {"a": 3, "b": 1, "c": 1, "x": 1}
    assert lists["credit stare"] == {"b": 1, "x": 1} and lists["credit stapo"] == {"c": 1, "a": 1}
    assert lists["clipped high"] == {"a": 2} and not lists["clipped low"]
    assert lists["positive_expected"] == {"a": 1, "c": 1} and lists["positive_surprising"] == {"b": 1}
    assert lists["negative_expected"] == {"a": 1} and lists["negative_surprising"] == {"x": 1}


def test_a_token_of_which_something_is_not_known_is_in_no_set(answer):
    assert sets_of(answer(entropy=None)) == ["", "", ""]
    assert sets_of(answer(logp=[None, -2.0, -0.1])) == ["", "positive_surprising", "positive_expected"]


def test_the_commonest_come_first_and_a_torn_line_is_left_out(answer, tmp_path, capsys):
    lines = [json.dumps(answer(texts=texts)) for texts in ("aba", "aca", "aba")]
    (tmp_path / "run").mkdir()
    (tmp_path / "run/samples.jsonl").write_text("\n".join([*lines, lines[0][:40]]))
    main([str(tmp_path), "--top", "1"])
    said = capsys.readouterr().out.splitlines()
    place = said.index("credit stare: 3 of 9 tokens")
    assert said[place + 1].split() == ['"b"', "2", "100.0%", "of", "its", "kind"] and not said[place + 2]


@pytest.mark.parametrize("options, sentence", [([], "holds no samples.jsonl"), (["--top", "0"], "--top 0 must be")])
def test_what_cannot_be_counted_is_said(tmp_path, options, sentence):
    with pytest.raises(SystemExit, match=sentence):
        main([str(tmp_path), *options])
