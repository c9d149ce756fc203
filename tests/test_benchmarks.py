import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

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


@pytest.mark.slow
def test_the_update_is_timed_apart_from_its_compiling(tmp_path):
    """In a process of its own: compilers do not see through the types that tests check."""
    arguments = ["--model=tiny", "--micros=1", "--length=300", "--share", f"--out={tmp_path}/update.json"]
    variables = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, ROOT / "benchmarks/update.py", *arguments], env=variables, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "update.json").read_text())
    assert found["first_s"] > sum(found["compiling_s"].values()) / len(found["compiling_s"]) > 0
    assert 1000 * found["first_s"] > found["full_ms"] > found["host_ms"] > 0


def test_judges_are_timed_by_kind(script, tmp_path, capsys, monkeypatch):
    benchmark = script(ROOT / "benchmarks/judges.py")
    monkeypatch.setattr(benchmark, "SETTLING", 0.0)
    benchmark.main(["--kinds", "numbers", "--repeats", "5", "--out", str(tmp_path / "judges.json")])
    found = json.loads((tmp_path / "judges.json").read_text())["ms"]["numbers"]
    assert found["p99"] >= found["median"] > 0 and "numbers" in capsys.readouterr().out


def test_contamination_is_timed_over_the_sets_that_are_there(script, tmp_path):
    for name in ("gsm8k/train.jsonl", "gsm8k/test.jsonl"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text('{"question": "How many eggs are left of 12?"}\n')
    script(ROOT / "benchmarks/contamination.py").main([str(tmp_path), "--out", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())["training"]
    assert found["gsm8k/train.jsonl"]["tests"]["gsm8k/test.jsonl"]["exact"] == 1
