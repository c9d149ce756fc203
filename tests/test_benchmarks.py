import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from isentropic.sampler.vllm import keeper
from isentropic.sampler.vllm.colocated import available

ROOT = Path(__file__).parents[1]
PARTS = ROOT / "configs/algorithm"


def test_the_benchmark_times_every_advantage_and_every_credit_rule(script, tmp_path, capsys):
    sizes = ["--advantages", "16", "8", "--credit", "16", "8", "--repeats", "2", "--threads", "1"]
    benchmark, threads = script(ROOT / "benchmarks/algorithm.py"), torch.get_num_threads()
    benchmark.main([*sizes, "--out", str(tmp_path / "cpu.json")])
    torch.set_num_threads(threads)
    said = capsys.readouterr().out
    advantages, credit = json.loads((tmp_path / "cpu.json").read_text())["ms"].values()
    for timed, seam in ((advantages, "advantage"), (credit, "credit")):
        assert {path.stem for path in (PARTS / seam).glob("*.yaml")} <= set(timed)
        assert all(ms["median"] >= ms["least"] > 0 for ms in timed.values())
        assert all(name in said for name in timed)


def test_balanced_ranks_have_less_to_wait_for_than_drawn_ones(script, capsys):
    script(ROOT / "benchmarks/balance.py").main()
    for line in capsys.readouterr().out.splitlines()[2:]:
        *_, drawn, mean, worst = [float(cell.strip(" %")) for cell in line.strip("|").split("|")]
        assert mean <= worst < drawn and mean < drawn / 10


CHILD = """
import os, subprocess, sys, time
if sys.argv[1] == "server":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    os.fork()  # a child with the server's command, which is not the server
time.sleep(600)
"""


@pytest.mark.skipif(not keeper.here(), reason="there is no /proc")
def test_the_faults_of_a_server_hit_the_keeper_the_server_and_its_engine_and_not_one_for_another(script, tmp_path):
    """The keeper's command names the server, as it starts it."""
    benchmark = script(ROOT / "benchmarks/faults.py")
    folder = tmp_path / ("long" * 60)
    folder.mkdir()
    server = [sys.executable, "-c", CHILD, "server", "-m", "vllm.entrypoints.openai.api_server"]
    kept = subprocess.Popen(
        [sys.executable, "-I", keeper.__file__, str(folder), str(os.getpid()), *server], start_new_session=True
    )
    try:
        end = time.monotonic() + 120
        while len(benchmark.descendants(kept.pid)) < 3 and time.monotonic() < end:
            time.sleep(0.05)
        found = {role: benchmark.serving(os.getpid(), role) for role in ("keeper", "server", "engine")}
        assert found["keeper"] == kept.pid
        assert benchmark.parent_of(found["server"]) == kept.pid
        assert benchmark.parent_of(found["engine"]) == found["server"]
    finally:
        kept.terminate()
        kept.wait()


@pytest.mark.slow
def test_the_update_is_timed_apart_from_its_compiling(forks, tmp_path):
    """In a process of its own: compilers do not see through the types that tests check."""
    arguments = ["--model=tiny", "--micros=1", "--length=300", "--share", f"--out={tmp_path}/update.json"]
    places = {"TMPDIR": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": f"{tmp_path}/kernels"}
    (result,) = forks(ROOT / "benchmarks/update.py", (arguments, places))
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "update.json").read_text())
    assert found["compiling_s"] and all(seconds > 0 for seconds in found["compiling_s"].values())
    assert min(found["first_s"], found["full_ms"], found["host_ms"]) > 0


def test_judges_are_timed_by_kind(script, tmp_path, capsys, monkeypatch):
    benchmark = script(ROOT / "benchmarks/judges.py")
    monkeypatch.setattr(benchmark, "SETTLING", 0.0)
    benchmark.main(["--kinds", "rational", "gsm8k", "--repeats", "5", "--out", str(tmp_path / "judges.json")])
    found = json.loads((tmp_path / "judges.json").read_text())["ms"]
    assert all(one["p99"] >= one["median"] > 0 and one["cpu"] > 0 for one in found.values())
    assert found.keys() == {"rational", "gsm8k"} and "rational" in capsys.readouterr().out


def test_a_study_takes_all_groups_of_a_seed_before_the_next(script):
    study = script(ROOT / "benchmarks/study.py").Study([], {"a": [], "b": []}, seeds=1, more={"b": 3}, first=7)
    assert study.jobs == [("a", 7), ("b", 7), ("b", 8), ("b", 9)]


def test_places_of_a_study_are_cores_or_shares_of_gpus(script, monkeypatch):
    study = script(ROOT / "benchmarks/study.py")
    assert [place.core for place in study.places(1, 0, 4)] == [min(os.sched_getaffinity(0))]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    two = study.places(16, 2, 2)
    assert [place.gpu for place in two] == ["0", "1", "0", "1"] and len(set(two)) == 4
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    assert [place.gpu for place in study.places(16, 1, 2)] == ["4", "4"]
    assert {place.gpu for place in study.places(16, 2, 1)} == {"4", "6"}


def test_equals_share_a_vote_and_a_marker_says_what_is_voted_for(script):
    votes = script(ROOT / "benchmarks/study.py").votes
    texts, right = (
        [["1", "2", "2", "3"], ["1", "1", "2", "2"]],
        [[False, True, True, False], [True, True, False, False]],
    )
    assert votes(texts, right, 4, []) == (1 + 0.5) / 2
    assert votes(texts[:1], right[:1], 3, []) == pytest.approx((1 + 1 + 1 / 3 + 1 / 3) / 4)  # of all threes
    words = [["so Answer: 4", "Answer: 5", "well. Answer: 4", "4"]]
    assert votes(words, [[True, False, True, False]], 4, ["Answer:"]) == 1


def test_the_scores_of_a_study_are_those_of_an_evaluation(script):
    from isentropic.evaluation.avg_at_k import AvgAtK
    from isentropic.evaluation.pass_at_k import PassAtK

    right = torch.rand(20, 16, generator=torch.Generator().manual_seed(0)) < 0.3
    found = script(ROOT / "benchmarks/study.py").scores([["x"] * 16] * 20, right.tolist(), [])
    for score in (AvgAtK(16, 1), PassAtK(16, 1), PassAtK(4, 1)):
        score.update(right.flatten(), torch.arange(20).repeat_interleave(16))
        assert found[score.name] == pytest.approx(float(score.compute()[score.name]))
    assert set(found) == {"avg@16", *(f"pass@{k}" for k in (1, 2, 4, 8, 16)), "maj@8", "maj@16"}


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=pytest.mark.slow if file.stem == "tune" else (), id=file.stem)  # of 16 groups
        for file in sorted((ROOT / "benchmarks/studies").glob("*.yaml"))
    ],
)
def test_the_runs_of_a_study_can_be_composed(script, file):
    import yaml

    from isentropic.config.compose import CONFIGS, compose, loader_of

    study = script(ROOT / "benchmarks/study.py").Study(**yaml.safe_load(file.read_text()))
    assert set(study.more) <= set(study.groups)
    loader = loader_of(CONFIGS)
    parts = (study.before, study.common) if study.before else (study.common,)
    for own in study.groups.values():
        for part in parts:
            cfg = compose(loader, "train", [*part, *own])
            assert cfg.rollout.steps % cfg.trainer.val_check_interval == 0


@pytest.mark.slow
def test_a_study_goes_on_where_it_stopped_and_keeps_no_weights(script, tmp_path, capsys, warm, monkeypatch):
    """What is begun anew and judged runs in forks, without imports."""
    (tmp_path / "tiny.yaml").write_text(
        "common: [experiment=countdown_grid, sampler=transformers, rollout.steps=2, trainer.val_check_interval=2,"
        " rollout.batch_size=64, rollout.evaluation.problems=8, callbacks.checkpoint.every=1]\n"
        "seeds: 1\ncheckpoints: 2\ngroups: {grpo: [algorithm=grpo]}\n"
    )
    study, runs = script(ROOT / "benchmarks/study.py"), tmp_path / "runs"
    study.main([str(tmp_path / "tiny.yaml"), str(runs), "--cores=1", "--minutes=0.02"])
    assert "0 of 1 runs are done, 0 failed" in capsys.readouterr().out
    monkeypatch.setattr(sys, "executable", str(warm.interpreter))
    study.main([str(tmp_path / "tiny.yaml"), str(runs), "--cores=1", f"--out={tmp_path / 'out'}"])
    assert "1 of 1 runs are done" in capsys.readouterr().out
    names = {path.name for path in (runs / "grpo/0").iterdir()}
    assert "checkpoints" not in names and {"metrics.csv", "metrics.1.csv", "answers.csv.gz"} <= names
    head, line = (tmp_path / "out/rows.csv").read_text().splitlines()
    found = dict(zip(head.split(","), line.split(","), strict=True))
    assert (found["group"], found["seed"], found["judged"]) == ("grpo", "0", "1 2") and "t0.5/maj@16" in found


@pytest.mark.slow
def test_a_study_goes_on_from_the_weights_of_a_training_before(script, warm, tmp_path, capsys, monkeypatch):
    """In forks, without imports."""
    monkeypatch.setattr(sys, "executable", str(warm.interpreter))
    small = (
        "experiment=countdown_grid, sampler=transformers, rollout.steps=1, trainer.val_check_interval=1,"
        " rollout.batch_size=64, rollout.evaluation.problems=8"
    )
    (tmp_path / "tiny.yaml").write_text(
        f"before: [{small}, policy.optimization.lr=1e-3, policy.optimization.warmup_steps=0]\n"
        f"common: [{small}, algorithm=grpo, task.largest=9]\n"
        "seeds: 1\ngroups: {stare: [algorithm=stare]}\n"
    )
    study, runs = script(ROOT / "benchmarks/study.py"), tmp_path / "runs"
    study.main([str(tmp_path / "tiny.yaml"), str(runs), "--cores=1"])
    assert "1 of 1 runs are done, 0 failed" in capsys.readouterr().out
    cfg = (runs / "stare/0/config.yaml").read_text()
    assert f"path: {tmp_path / 'runs_before/stare/0_weights'}" in cfg
    status, before = (json.loads((one / "stare/0/status.json").read_text()) for one in (runs, tmp_path / "runs_before"))
    assert "algorithm=grpo" in status["overrides"] and "algorithm=stare" not in status["overrides"]
    assert "algorithm=stare" in before["overrides"] and "algorithm=grpo" not in before["overrides"]
    assert (tmp_path / "runs_before/stare/0_weights/model.safetensors").is_file()
    assert not (tmp_path / "runs_before/stare/0/checkpoints").exists()


def test_runs_of_a_study_go_beside_each_other_and_one_that_fails_keeps_no_other(script, tmp_path, capsys, monkeypatch):
    """Each of two that end waits for the other to begin; of five steps, the second of one run fails."""
    study, runs = script(ROOT / "benchmarks/study.py"), tmp_path / "runs"
    steps = {"a": ["meets b", "is judged"], "b": ["meets a", "is judged"], "c": ["fails", "is judged"]}
    code = (
        "import sys, time\nfrom pathlib import Path\nfolder, step = Path(sys.argv[1]), sys.argv[2]\n"
        "folder.mkdir(exist_ok=True)\n"
        "if step == 'is judged': (folder / 'judged.json').touch()\n"
        "while step.startswith('meets') and not (folder.parents[1] / step[-1] / '0').exists(): time.sleep(0.01)\n"
        "sys.exit(step == 'fails')\n"
    )

    def next_step(_study, _file, _runs, label, _seed):
        return [sys.executable, "-c", code, str(runs / label / "0"), steps[label].pop(0)] if steps[label] else None

    monkeypatch.setattr(study, "next_step", next_step)
    three = study.Study([], {"a": [], "b": [], "c": []}, seeds=1)
    study.carry_out(three, tmp_path / "file", runs, [study.Place(), study.Place(of_gpu=1)], time.monotonic() + 300)
    said = capsys.readouterr().out
    assert f"c, seed 0 failed; see {runs}/c/0.log" in said and "2 of 3 runs are done, 1 failed" in said
    assert steps == {"a": [], "b": [], "c": ["is judged"]}


def test_contamination_is_timed_over_the_sets_that_are_there(script, tmp_path):
    for name in ("gsm8k/train.jsonl", "gsm8k/test.jsonl"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text('{"question": "How many eggs are left of 12?"}\n')
    script(ROOT / "benchmarks/contamination.py").main([str(tmp_path), "--out", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())["training"]
    assert found["gsm8k/train.jsonl"]["tests"]["gsm8k/test.jsonl"]["exact"] == 1


def test_every_protocol_is_planned_with_a_model(script, tmp_path, capsys):
    benchmark = script(ROOT / "benchmarks/protocols.py")
    there = {path.stem for path in (ROOT / "configs/evaluation/protocol").glob("*.yaml")} - {"own"}
    kept = json.loads((ROOT / "benchmarks/results/protocols.json").read_text())
    assert set(benchmark.MODELS) == there == set(kept)
    assert "\n".join(benchmark.rows(kept)) in (ROOT / "docs/evaluation.md").read_text(), "the page has other numbers"
    benchmark.main(["stare", "--data", str(tmp_path), "--out", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())["stare"]
    assert found["problems"] == 1547 and found["answers"] == 32 * 100 + 4 * 1447
    assert (
        found["tokens"] == 3072 * found["answers"]
        and "| `stare` | Qwen2.5-Math-7B | 1,547 |" in capsys.readouterr().out
    )
    assert "counted as published" in found["said"][0]


@pytest.mark.slow
def test_a_killed_evaluation_and_a_checkpoint_give_the_same_answers(script, warm, tmp_path, capsys, monkeypatch):
    """In forks, without imports; test_judge.py kills a process as it is."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setattr(sys, "executable", str(warm.interpreter))
    benchmark = script(ROOT / "benchmarks/subjects.py")
    (tmp_path / "data" / "gsm8k").mkdir(parents=True)
    rows = [{"question": f"{i},2,3,4>{i + 5}:", "answer": f"#### {i + 5}"} for i in range(1, 4)]
    (tmp_path / "data" / "gsm8k" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = ["chat=false", "system=null", "template='{question}'", "exams.greedy.decoding.max_tokens=40"]
    small = ["--set", "qwen_math", "gsm8k[2]", "--count", "3", "--batch", "2", "--device", "transformers"]
    asked = [
        str(ROOT / "src/isentropic/assets/countdown"), "--data", str(tmp_path / "data"), *small,
        "--work", str(tmp_path / "work"), "--out", str(tmp_path / "found.json"),
        "--settings", *(f"evaluation.protocol.{one}" for one in plain),
    ]  # fmt: skip
    benchmark.main([*asked, "--parts", "killed", "checkpoint", "server"])
    found = json.loads((tmp_path / "found.json").read_text())["gsm8k[2]"]
    assert list(found) == ["killed", "checkpoint"]  # a server is vLLM's
    assert all(one["code"] == 0 and one["texts_as_the_first_s"] == "6/6" for one in found.values())
    assert found["killed"]["scores"] == found["checkpoint"]["scores"]
    assert found["killed"]["answers_when_killed"] in (2, 4, 6)
    with pytest.raises(SystemExit):
        benchmark.main([*asked, "seed=x", "--parts", "folder"])
    assert "seed=x is not a whole number" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="vLLM is not installed")
def test_turns_are_timed_against_as_many_tokens_in_one(forks, tmp_path):
    arguments = ["--answers=4", "--tokens=4", "--rounds=1", "--only=equal, 3 turns", f"--out={tmp_path}/turns.json"]
    (result,) = forks(ROOT / "benchmarks/turns.py", (arguments, {}), kind="engine")
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "turns.json").read_text())["cases"]
    assert list(found)[:1] == ["equal, one turn"] and all(name.startswith("equal, ") for name in found)
    assert len(found) == 5 and {case["tokens"] for case in found.values()} == {48}


def test_the_shape_of_a_model_takes_the_place_of_sizes(script):
    benchmark = script(ROOT / "benchmarks/turns.py")
    given = Namespace(model=None, hidden=128, intermediate=384, layers=6)
    assert (benchmark.entry(given)["hidden_size"], benchmark.entry(given)["num_attention_heads"]) == (128, 4)
    given.model = "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert (benchmark.entry(given)["hidden_size"], benchmark.entry(given)["num_attention_heads"]) == (576, 9)
