"""Graders by name, and the front door of `isentropic eval regrade=FOLDER`."""

import pytest

from isentropic.config.build import BadInput
from isentropic.config.graders import graders_of, regrade, regraded, regrades
from isentropic.evaluation.answers import Answered, Asked, add, read_answers, write_problems


@pytest.fixture
def folder(tmp_path):
    write_problems(tmp_path, [Asked("aime24", "0" * 16, 0, "q?", "25", "p", "h", 3)])
    texts = r"\boxed{25}", r"\boxed{025}"
    add(
        tmp_path,
        [
            Answered("aime24", "0" * 16, i, 0, text, 4, "stop", text, {"task": True}, {"task": "right"}, 0.1)
            for i, text in enumerate(texts)
        ],
    )
    return tmp_path


def test_graders_are_built_in_the_order_of_their_names():
    assert list(graders_of(["integer", "boxed_string", "dapo_answer"])) == ["integer", "boxed_string", "dapo_answer"]
    assert graders_of(["integer"], ["graders.integer.marker='####'"])["integer"].marker == "####"


@pytest.mark.parametrize("asked", ["boxed_string", "[boxed_string,integer]", "[ boxed_string, integer ]"])
def test_kept_answers_are_judged_from_the_command_line(folder, asked, capsys):
    arguments = [f"regrade={folder}", f"grader={asked}"]
    assert regrades(arguments) and not regrades(["subject=x"])
    regrade(arguments)
    said = capsys.readouterr().out
    assert "aime24/avg by boxed_string: 0.5000\n" in said
    assert "task and boxed_string agree on 50.0% of 2 answers, kappa 0.000" in said
    names = ["task", "boxed_string", *(["integer"] if "integer" in asked else [])]
    assert [list(one.verdicts) for one in read_answers(folder)] == [names] * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grader=boxd_string"], r"evaluation/grader=boxd_string does not exist: .*; did you mean boxed_string\?"),
        ([], r"grader has no value; name one, as in grader=boxed_string"),
        (["grader=[integer,integer]"], r"grader=\[integer,integer\] must name one grader or several different ones"),
        (["grader=integer", "seed=3"], r"seed does not exist: regrade has the keys regrade, grader and graders\.NAME"),
        (["grader=integer", "graders.integer.mark=x"], r"graders\.integer\.mark does not exist"),
        (["grader=stare", "graders.stare.workers=0"], r"workers=0 lets no answer be judged"),
        (["grader=[model:a,model:b]"], r"has 2 models; give one at a time"),
    ],
)
def test_what_cannot_be_regraded_is_one_sentence(folder, arguments, said, capsys):
    with pytest.raises(BadInput, match=said):
        regraded([f"regrade={folder}", *arguments])
    with pytest.raises(SystemExit) as end:
        regrade([f"regrade={folder}", *arguments])
    error = capsys.readouterr().err
    assert end.value.code == 2 and error.startswith("error: ") and error.count("\n") == 1


def test_a_folder_that_is_no_evaluation_is_one_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        regrade([f"regrade={tmp_path}/none", "grader=integer"])
    assert end.value.code == 2 and "holds no problems.jsonl" in capsys.readouterr().err
