"""A model judged by a protocol: from the command line, as a user would, and what is said of what cannot be."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isentropic.config.build import BadInput
from isentropic.evaluation.answers import ANSWERS, read_answers
from isentropic.judge import judge

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "src" / "isentropic" / "assets" / "countdown"
FEW = ("training.sets=['countdown[6]']", "training.count=4", "batch=8")


def question(folder: Path, count: int = 3) -> str:
    """A set of the tiny model's own characters, in a file."""
    file = folder / "sums.jsonl"
    file.write_text("".join(json.dumps({"problem": f"{i}+{i}=", "answer": str(2 * i)}) + "\n" for i in range(count)))
    return str(file)


@pytest.fixture
def on_file(tiny_model, tmp_path):
    """The arguments of an evaluation of the tiny model on a file, by a paper's protocol made small."""
    exam = "evaluation.protocol.exams.avg32"
    return [
        f"subject={tiny_model}", "evaluation/protocol=dapo", "evaluation.protocol.graders=[math_verify]",
        f"sets.aime24.path={question(tmp_path)}", "sets.aime24.question=problem", "evaluation.protocol.chat=false",
        "evaluation.protocol.template='{question}'", f"{exam}.decoding.max_tokens=8", "rule.workers=1",
        f"{exam}.count=4", f"folder={tmp_path}/eval",
    ]  # fmt: skip


def texts(folder: Path) -> dict:
    return {one.key: (one.seed, one.text, one.right) for one in read_answers(folder)}


def test_a_folder_is_judged_on_a_file_by_a_paper_s_protocol(on_file, tmp_path, capsys, monkeypatch):
    judge(on_file)
    said, folder = capsys.readouterr().out, tmp_path / "eval"
    assert "protocol dapo: DAPO" in said and "assumed, as the source does not say it: template" in said
    assert "aime24: 12/12 answers" in said and "not as the protocol has it: exams.avg32.count=4, which was 32" in said
    card = json.loads((folder / "card.json").read_text())
    assert "exams.avg32.count=4, which was 32" in card["protocol"]["changed"]
    assert "grade A, with other settings than its own" in (folder / "card.md").read_text()
    assert {one.name for one in folder.iterdir()} >= {
        "answers.jsonl", "problems.jsonl", "config.yaml", "versions.json", "scores.json", "card.html", "card.json",
    }  # fmt: skip
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["sets"]["aime24"]["k"] == 4 and "aime24/avg@4: " in said
    before = texts(folder)
    monkeypatch.setattr("isentropic.sampler.hf.TransformersSampler.start", lambda _: pytest.fail("nothing is missing"))
    judge(on_file)
    assert texts(folder) == before and len(before) == 12
    versions = json.loads((folder / "versions.json").read_text())
    assert len(versions["data"]["aime24"]) == len(versions["weights"]) == len(versions["tokenizer"]) == 64


@pytest.mark.slow
def test_going_on_with_other_settings_is_refused_with_what_differs(on_file, tmp_path):
    judge(on_file)
    before = (tmp_path / "eval" / "config.yaml").read_text()
    with pytest.raises(BadInput, match=r"folder: .*holds an evaluation with other settings: seed=5, and it was 0"):
        judge([*on_file, "seed=5"])
    assert (tmp_path / "eval" / "config.yaml").read_text() == before
    question(tmp_path, 4)
    with pytest.raises(BadInput, match=r"asked.aime24.problems=4, and it was 3"):
        judge(on_file)


@pytest.mark.slow
def test_greedy_needs_one_answer_and_gives_it(on_file, tmp_path):
    greedy = "evaluation.protocol.exams.avg32.decoding.temperature=0"
    with pytest.raises(BadInput, match="count=4 answers at temperature=0 would all be the same"):
        judge([*on_file, greedy])
    judge([*on_file, greedy, "evaluation.protocol.exams.avg32.count=1"])
    assert len(texts(tmp_path / "eval")) == 3


@pytest.mark.slow
def test_a_long_answer_is_cut_to_what_the_model_reads(on_file, capsys):
    judge([*on_file, "evaluation.protocol.exams.avg32.decoding.max_tokens=9999", "sampler.max_model_len=20"])
    assert "aime24: answers have at most 16 tokens in place of the protocol's 9999" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change, said",
    [
        (["evaluation/protocol=stapo"], r"evaluation/protocol=stapo does not exist: .*did you mean stapo_"),
        (["evaluation.protocol.only=[aime99]"], r"only=\[aime99\] is no set of dapo"),
        (["evaluation.protocol.exams.avg32.sets=[nowhere]"], "the set nowhere does not exist"),
        (["evaluation.protocol.exams.avg32.sets=['aime24[99]']"], "asks for 99 problems, and aime24 has 3"),
        (["evaluation.protocol.scores=[pass@8]"], "pass@8 needs 8 answers of each problem"),
        (["sets.aime24.path=gone.jsonl"], "gone.jsonl is not a file"),
        (["sets.aime24.question=text"], r"lacks text; its columns are problem, answer"),
        (["sampler.max_model_len=4"], "problem 1 of aime24 has a prompt of 4 tokens, and the model reads 4"),
        (["evaluation.protocol.graders=[nobody]"], "evaluation/grader=nobody does not exist"),
        (["evaluation.protocol.chat=true"], "has no chat template"),
        (["sampler=vllm_server"], "give its URL as subject"),
        (["batch=many"], "batch=many is not a whole number of at least 1"),
        (["against=docs"], "against: docs holds no problems.jsonl; it is not the folder of an evaluation"),
        (["bacth=4"], "bacth does not exist"),
        (["evaluation/protocol=simpletir", "sets.aime24.path=x"], "answers in 10 turns"),
        (["evaluation/protocol=stare"], "takes max_tokens from a training, and there is none; give experiment=NAME"),
        (["evaluation/protocol=own"], "evaluation/protocol=own takes template from a training"),
        (["experiment=nothing"], "experiment=nothing does not exist"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_before_anything_is_made(on_file, tmp_path, change, said):
    kept = [one for one in on_file if not (change[0].startswith("evaluation/protocol") and "protocol" in one)]
    with pytest.raises(BadInput, match=said) as refused:
        judge([*(one for one in kept if one.partition("=")[0] != change[0].partition("=")[0]), *change])
    assert "\n" not in str(refused.value) and not (tmp_path / "eval").exists()


def test_a_subject_without_weights_or_none_at_all_is_refused(on_file, tmp_path):
    for arguments, said in (
        (on_file[1:], "subject has no value"),
        ([f"subject={tmp_path}/gone", *on_file[1:]], "gone does not exist"),
        ([f"subject={tmp_path}", *on_file[1:]], "is neither a model's folder"),
        (["subject=http://127.0.0.1:9", "server.timeout=1", *on_file[1:]], "cannot be reached within 1 seconds"),
    ):
        with pytest.raises(BadInput, match=said):
            judge(arguments)


def test_a_dry_run_says_what_it_takes_and_asks_nothing(on_file, tmp_path, capsys):
    judge([*on_file, "dry_run=true", "card=h200"])
    said = capsys.readouterr().out.splitlines()
    assert said[-4].endswith("on 1 x H200")
    assert said[-1].split()[:4] == ["together", "3", "12", "96"] and not (tmp_path / "eval").exists()


def test_all_sets_that_are_missing_are_named_at_once_with_what_leaves_them_out(on_file, tmp_path):
    sets = "evaluation.protocol.exams.avg32.sets=[aime24,aime25,amc23]"
    gone = [f"sets.{name}.path={tmp_path}/gone.jsonl" for name in ("aime25", "amc23")]
    with pytest.raises(BadInput) as refused:
        judge([*on_file, sets, *gone])
    said = str(refused.value)
    assert said.startswith("aime25, amc23 cannot be read, the first as ") and "gone.jsonl is not a file" in said
    assert said.endswith("'evaluation.protocol.only=[aime24]' leaves them out") and "\n" not in said
    judge([*on_file, sets, "evaluation.protocol.only=[aime24]"])


@pytest.fixture
def as_a_user(tmp_path):
    """`isentropic eval` as a process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

    def start(*arguments: str, interpreter: str | Path = sys.executable) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [interpreter, "-m", "isentropic", "eval", *arguments], env=environment, cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


@pytest.mark.slow
def test_the_shipped_model_is_judged_and_after_a_kill_the_same_scores_come(as_a_user, forks, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    (ended,) = forks("isentropic", (["eval", f"subject={SHIPPED}", *FEW, f"folder={whole}"], {}))
    assert ended.returncode == 0 and "countdown[6]/avg@4" in ended.stdout, ended.stderr
    process = as_a_user(f"subject={SHIPPED}", *FEW, "batch=1", f"folder={cut}")
    while process.poll() is None and (not (cut / ANSWERS).exists() or (cut / ANSWERS).read_text().count("\n") < 3):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    there = len(texts(cut))
    assert process.returncode == -signal.SIGKILL and 3 <= there < 24
    (ended,) = forks("isentropic", (["eval", f"subject={SHIPPED}", *FEW, f"folder={cut}"], {}))
    assert ended.returncode == 0 and f"{there} of 24 answers are there already" in ended.stdout, ended.stderr
    assert texts(cut) == texts(whole)
    assert (cut / "scores.json").read_text() == (whole / "scores.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        (f"subject={SHIPPED}", "evaluation/protocol=stare"),
        (f"subject={SHIPPED}", *FEW, "against=nowhere"),
        ("regrade=nowhere", "grader=boxed_string"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(forks, arguments):
    (ended,) = forks("isentropic", (["eval", *arguments], {}))
    assert ended.returncode == 2 and ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_run_is_judged_by_its_own_settings_and_a_difference_is_said(quickstart, tmp_path, capsys):
    run, _ = quickstart
    judge([f"subject={run}", f"folder={tmp_path}/own", "training.count=2", "sampler=transformers"])
    said = capsys.readouterr().out
    assert "countdown[4]: 8/8 answers" in said and "count=2, and the run's evaluation had 16" in said
    assert list(run.glob("checkpoints/exported_*_float32/config.json"))


@pytest.mark.slow
def test_two_evaluations_do_not_share_a_folder(as_a_user, forks, warm, tmp_path):
    asked = ["eval", f"subject={SHIPPED}", *FEW, "training.count=999", f"folder={tmp_path}/eval"]
    first = as_a_user(*asked[1:], interpreter=warm.interpreter)
    while first.poll() is None and not (tmp_path / "eval" / ANSWERS).exists():
        time.sleep(0.05)
    (second,) = forks("isentropic", (asked, {}))
    first.kill()
    first.communicate()
    assert second.returncode == 2 and "is the folder of a run that goes on in another process" in second.stderr


def test_several_graders_are_asked_and_their_agreement_and_the_comparison_stand_on_the_card(on_file, tmp_path, capsys):
    graders = "evaluation.protocol.graders=[boxed_string,integer]"
    judge([*on_file, graders])
    said, folder = capsys.readouterr().out, tmp_path / "eval"
    assert "boxed_string and integer agree on" in said
    assert {*read_answers(folder)[0].verdicts} == {"boxed_string", "integer"}
    assert json.loads((folder / "agreement.json").read_text())
    judge([*(one for one in on_file if "folder=" not in one), graders, f"folder={tmp_path}/other", f"against={folder}"])
    card = json.loads((tmp_path / "other" / "card.json").read_text())
    assert card["command"].startswith("isentropic eval subject=") and f"against={folder}" in card["command"]
    assert str(folder) in json.dumps({key: value for key, value in card.items() if key != "command"})
    with pytest.raises(BadInput, match="grading"):
        judge([*on_file, "grading=[graders.stare.closed=true]"])


def test_what_was_cut_and_how_graders_are_set_is_not_the_protocol_s(on_file, tmp_path, capsys):
    longer = [one for one in on_file if "max_tokens" not in one]
    how = "graders.math_verify.strictness=math_verify"
    judge([*longer, how, "sampler.max_model_len=40"])
    said = capsys.readouterr().out
    assert f"  not as the protocol has it: {how}" in said
    changed = json.loads((tmp_path / "eval" / "card.json").read_text())["protocol"]["changed"]
    assert how in changed and any("tokens in place of the protocol's 20480" in one for one in changed)
    judge([*longer, how, "sampler.max_model_len=40"])
    other = [*(one for one in on_file if "folder=" not in one), f"folder={tmp_path}/other"]
    judge([*other, f"against={tmp_path}/eval"])
    assert f"against: {tmp_path}/other and {tmp_path}/eval cannot be compared: decoding" in capsys.readouterr().out


def test_a_gold_that_the_grader_does_not_call_right_is_refused_unless_allowed(on_file, tmp_path):
    with (tmp_path / "sums.jsonl").open("a") as file:
        file.write(json.dumps({"problem": "1+1=", "answer": "two"}) + "\n")
    asked = [*on_file, "evaluation.protocol.graders=[integer]"]
    with pytest.raises(BadInput, match=r"1 of 4 golds of aime24 are not right by integer .*allow_unjudgeable=true"):
        judge(asked)
    assert not (tmp_path / "eval").exists()
    judge([*asked, "allow_unjudgeable=true"])
    assert len(read_answers(tmp_path / "eval")) == 16


def test_the_length_of_a_sampler_for_training_is_not_that_of_an_evaluation(on_file):
    from isentropic.judge import composed

    cfg, _ = composed([*on_file, "sampler=vllm"], on_file[0].partition("=")[2], None)
    assert cfg.sampler.max_model_len == 0
    cfg, _ = composed([*on_file, "sampler=vllm", "sampler.max_model_len=64"], on_file[0].partition("=")[2], None)
    assert cfg.sampler.max_model_len == 64


def test_a_set_of_several_turns_is_refused(tiny_model, tmp_path):
    asked = [
        f"subject={tiny_model}", "experiment=calculator", "training.sets=['calculator[4]']", "training.count=1",
        f"folder={tmp_path}/eval",
    ]  # fmt: skip
    with pytest.raises(BadInput, match=r"calculator\[4\] is answered in several turns"):
        judge(asked)


def test_what_a_run_or_experiment_lends_can_be_set_by_its_parts(on_file, tiny_model):
    from isentropic.judge import composed

    asked = [f"subject={tiny_model}", "training.decoding.temperature=0.5"]
    cfg, _ = composed([*asked, "experiment=quickstart"], str(tiny_model), "quickstart")
    assert cfg.evaluation.protocol.exams.own.decoding.temperature == 0.5
    with pytest.raises(BadInput, match=r"training\.decoding\.heat does not exist"):
        composed([asked[0], "training.decoding.heat=1", "experiment=quickstart"], str(tiny_model), "quickstart")


def test_what_is_changed_of_a_protocol_is_told_and_what_is_left_out_or_set_as_it_was_is_no_change(tiny_model):
    from isentropic.judge import composed

    asked = [f"subject={tiny_model}", "evaluation/protocol=stare", "experiment=quickstart"]
    same = ["evaluation.protocol.only=[aime24]", "evaluation.protocol.exams.avg32.count=32"]
    assert composed([*asked, *same], str(tiny_model), "quickstart")[0].changed == []
    longer = "evaluation.protocol.exams.avg32.decoding.max_tokens=9"
    changed = composed([*asked, longer], str(tiny_model), "quickstart")[0].changed
    assert changed == ["exams.avg32.decoding.max_tokens=9, which was ${training.max_tokens}"]
