import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ROOT / "configs/algorithm"


def test_the_benchmark_times_every_advantage_and_every_credit_rule(tmp_path):
    sizes = ["--advantages", "16", "8", "--credit", "16", "8", "--repeats", "2", "--threads", "1"]
    command = [sys.executable, ROOT / "benchmarks/algorithm.py", *sizes, "--out", tmp_path / "cpu.json"]
    environment = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    advantages, credit = json.loads((tmp_path / "cpu.json").read_text())["ms"].values()
    for timed, seam in ((advantages, "advantage"), (credit, "credit")):
        assert {path.stem for path in (PARTS / seam).glob("*.yaml")} <= set(timed)
        assert all(ms["median"] >= ms["least"] > 0 for ms in timed.values())
        assert all(name in result.stdout for name in timed)
