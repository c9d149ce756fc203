import json
from pathlib import Path

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
