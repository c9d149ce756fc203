"""How long a report takes: made-up runs, as large as real ones, then `isentropic report` on them.

python benchmarks/report.py 1 100 10000 --out benchmarks/results/report.json
"""

import json
import os
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from omegaconf import OmegaConf

from isentropic.config.compose import compose, loader_of
from isentropic.config.entry import CONFIGS

METHODS = ("grpo", "dapo", "stare", "stapo")
SEEDS = 5
LINES = 300  # of config.yaml
METRICS = [
    *(f"eval/{score}{end}" for score in ("avg@8", "pass@16") for end in ("", "_low", "_high")),
    *("entropy/mean", "control/up", "control/down", "control/target", "credit/stare"),
    *("clipping/clipped_high", "clipping/clipped_low", "policy/loss", "policy/grad_norm", "policy/skipped"),
    *("rollout/reward", "rollout/correct", "rollout/length", "rollout/reflection", "sampler/logp_gap"),
    *("throughput/step_seconds", "throughput/tokens", "throughput/seconds"),
]


def make(folder: Path, count: int, steps: int) -> None:
    """Methods by learning rates by seeds, as many as it takes."""
    templates = {method: config_of(method) for method in METHODS}
    for index in range(count):
        seed, method = index % SEEDS, METHODS[index // SEEDS % len(METHODS)]
        rate = 1e-4 * (1 + index // (SEEDS * len(METHODS)))
        run = folder / str(index)
        (run / ".hydra").mkdir(parents=True)
        text = templates[method].replace("seed: 0", f"seed: {seed}").replace("lr: 0.0001", f"lr: {rate:g}")
        (run / "config.yaml").write_text(text.replace("OUTPUT", str(run)))
        overrides = ["experiment=quickstart", f"algorithm={method}", f"seed={seed}"]
        overrides += [f"policy.optimization.lr={rate:g}"]
        (run / ".hydra" / "overrides.yaml").write_text("".join(f"- {line}\n" for line in overrides))
        status = {
            "status": "done",
            "error": None,
            "seconds": 300.0,
            "host": "made-up",
            "pid": 1,
            "overrides": overrides,
        }
        (run / "status.json").write_text(json.dumps(status))
        (run / "metrics.csv").write_text(metrics_of(index, method, steps))


def config_of(method: str) -> str:
    overrides = ["experiment=quickstart", f"algorithm={method}", "rollout.steps=200", "paths.output=OUTPUT"]
    cfg = compose(loader_of(CONFIGS, None), "train", overrides)
    text = OmegaConf.to_yaml(
        OmegaConf.masked_copy(cfg, [key for key in cfg if key not in ("hydra", "logger")]), resolve=True
    )
    more = (f"  setting_{i}: {i}\n" for i in range(LINES - text.count("\n") - 1))
    return text + "more:\n" + "".join(more)


def metrics_of(seed: int, method: str, steps: int) -> str:
    """Entropy falls, or is held, with noise; two more evaluations than a real run is likely to have."""
    draw = np.random.default_rng(seed)
    cells = draw.random((steps + 1, len(METRICS)))
    held = 0.15 if method == "stare" else 0.05
    cells[:, METRICS.index("entropy/mean")] = held + 0.2 * np.exp(-np.arange(steps + 1) / 40) + 0.01 * cells[:, 0]
    cells[:, [METRICS.index("throughput/tokens"), METRICS.index("throughput/seconds")]] = np.arange(steps + 1)[:, None]
    lines = [",".join([*METRICS, "step"])]
    for step in range(steps + 1):
        row = [f"{value:.12g}" for value in cells[step]]
        evaluated = step % 20 == 0
        row = [c if evaluated or not n.startswith("eval/") else "" for n, c in zip(METRICS, row, strict=True)]
        lines.append(",".join([*row, str(step)]))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="+", help="of runs")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="where the runs stay; else they are removed")
    parser.add_argument("--out", type=Path, help="where the timings are written as JSON")
    asked = parser.parse_args()
    rows: list[dict[str, float]] = []
    for count in asked.counts:
        with TemporaryDirectory() as temporary:
            folder = (asked.keep or Path(temporary)) / f"runs_{count}"
            if not folder.exists():
                make(folder, count, asked.steps)
            start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [
                sys.executable,
                "-m",
                "isentropic.commands.report",
                str(folder),
                "--out",
                str(Path(temporary) / "report"),
            ]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - start
            page = (Path(temporary) / "report" / "report.html").stat().st_size / 1e6
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime  # of all its processes
            peak = after.ru_maxrss / 1e6  # the largest so far: count upwards
            sizes = {"peak_gb": round(peak, 2), "page_mb": round(page, 2)}
            rows.append({"runs": count, "seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1)} | sizes)
            print(rows[-1], flush=True)
    if asked.out:
        asked.out.write_text(json.dumps({"cpu": os.cpu_count(), "steps": asked.steps, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
