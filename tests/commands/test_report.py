from pathlib import Path

import pytest

from isentropic.commands.report import main

FILES = {
    "report.html",
    "report.md",
    "table.tex",
    "runs.parquet",
    "curves.parquet",
    "figures",
    "runs.csv",
    "differences.csv",
}


def test_a_sweep_becomes_a_report_in_its_folder(sweep, capsys):
    folder = sweep()
    main([str(folder)])
    assert {path.name for path in (folder / "report").iterdir()} == FILES
    said = capsys.readouterr().out
    assert "6 runs in 2 groups: grpo, stare." in said and "What cannot be claimed:" in said
    assert f"report: {folder}/report/report.html" in said


@pytest.mark.slow
def test_a_report_is_written_anew_and_is_no_run_itself(sweep, svg_alone, capsys):
    folder = sweep(seeds=(0,))
    (folder / "report" / "figures").mkdir(parents=True)
    for kind in ("png", "svg", "pdf"):
        (folder / "report" / "figures" / f"of_before.{kind}").touch()
    main([str(folder / "grpo_0"), "--out", str(folder / "report")])
    assert not list((folder / "report" / "figures").glob("of_before.*"))
    assert "1 run in 1 group: grpo. There is nothing to compare it with." in capsys.readouterr().out
    main([str(folder)])
    assert "2 runs in 2 groups" in capsys.readouterr().out


@pytest.mark.slow
def test_everything_wrong_with_runs_at_once_is_still_a_report(sweep, a_run, svg_alone, tmp_path, capsys):
    folder = sweep()
    lines = (folder / "grpo_0" / "metrics.csv").read_text()
    (folder / "grpo_0" / "metrics.csv").write_text(lines[: len(lines) // 2])  # half-written
    (folder / "grpo_1" / "metrics.csv").write_text("")
    (folder / "grpo_2" / "config.yaml").write_text("seed: [")
    (folder / "stare_0" / "status.json").write_text("{")
    (folder / "stare_1" / "metrics.csv").rename(folder / "stare_1" / "metrics.1.csv")
    a_run(folder / "other", metrics={"rollout/reward": [float("nan")] * 40}, scores={"eval/other@1": [0, 1]})
    (folder / "foreign").mkdir()
    (folder / "foreign" / "metrics.csv").write_text("epoch,loss\n1,2\n")
    (folder / "empty").mkdir()
    main([str(folder), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert "8 runs in" in said
    text = (tmp_path / "out" / "report.md").read_text()
    for remark in (
        "was cut off and left out",
        "metrics.csv is empty",
        "config.yaml could not be read",
        "no column step",
    ):
        assert remark in text, remark


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{empty}"], "error: no run in "),
        (["{empty}/nowhere"], "error: there is no folder "),
        (["{run}", "--ignore", "nothing"], "error: --ignore nothing: no run has such a key"),
        (["{run}", "--against", "nothing"], "error: --against nothing: no group is called so; there are "),
    ],
)
def test_what_cannot_be_done_is_one_sentence(a_run, tmp_path, capsys, arguments, sentence):
    (tmp_path / "empty").mkdir()
    a_run(tmp_path / "run")
    places = {"empty": tmp_path / "empty", "run": tmp_path / "run"}
    with pytest.raises(SystemExit) as stopped:
        main([text.format(**places) for text in arguments] + ["--out", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.startswith(sentence) and said.count("\n") == 1


def test_without_a_folder_there_is_the_usage(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "usage: isentropic report" in capsys.readouterr().err


@pytest.mark.slow
def test_the_benchmark_makes_runs_and_times_their_report(forks, tmp_path):
    script = Path(__file__).parents[2] / "benchmarks" / "report.py"
    (result,) = forks(script, (["7", "--steps", "25", "--out", tmp_path / "report.json"], {}))
    assert result.returncode == 0, result.stderr
    assert "'runs': 7" in result.stdout and (tmp_path / "report.json").is_file()


@pytest.mark.slow
def test_folders_can_be_named_and_any_logged_metric_can_be_drawn(a_run, svg_alone, tmp_path, capsys):
    metrics = {"policy/grad_norm": [1.0, 0.5, 0.2], "entropy/q90": [2.0, 1.5, 1.0]}
    for seed in (0, 1):
        a_run(tmp_path / f"grpo_{seed}", seed, steps=3, metrics=metrics, scores={})
    out = tmp_path / "out"
    arguments = [f"old={tmp_path / 'grpo_0'}", f"new={tmp_path / 'grpo_1'}", "--out", str(out), "--against", "new"]
    main([*arguments, "--draw", "policy/grad_norm", "--draw", "entropy/q90"])
    assert "2 runs in 2 groups: old, new. What others are compared with is new." in capsys.readouterr().out
    drawn = {path.name for path in (out / "figures").iterdir()}
    assert {"policy_grad_norm_rollouts.svg", "entropy_q90_rollouts.svg"} <= drawn
    assert "entropy/q90" in (out / "report.html").read_text()


def test_a_metric_that_no_run_logged_is_refused_with_those_that_are_near(a_run, tmp_path, capsys):
    folder = a_run(tmp_path / "runs/one")
    with pytest.raises(SystemExit):
        main([str(folder), "--out", str(tmp_path / "out"), "--draw", "policy/gradnorm"])
    assert "--draw policy/gradnorm: no run has logged it; take another, such as " in capsys.readouterr().err
