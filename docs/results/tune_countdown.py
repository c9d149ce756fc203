"""Chooses each method's settings for `experiment=countdown_grid`, all with the same effort, by the validation split.

    python docs/results/tune_countdown.py run logs/tune --jobs 4      # 2 learning rates x 2 values of one knob: 52 runs
    python docs/results/tune_countdown.py choose logs/tune            # a table, and the overrides of the grid

The best is the one with the highest mean of avg@8 and pass@16 after the last rollout, on 256 validation problems. The
seed is one that no reported run has.
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path

from omegaconf import OmegaConf

RATES = (1e-4, 2e-4)  # the first is the quickstart's
KNOBS = {  # of each method, relative to `algorithm`; the first value is the paper's, or what stands in for it
    "grpo": ("clipping.low", (0.2, 0.1)),
    "dapo": ("clipping.high", (0.28, 0.4)),
    "top_entropy": ("credit.top_entropy.top", (0.2, 0.5)),
    "stapo": ("credit.stapo.probability", (0.02, 0.1)),  # at the paper's 0.002 no token of 24 is rare
    "gtpo": ("advantage.bonus", (0.1, 0.5)),
    "gtpo_joint": ("advantage.bonus", (0.1, 0.5)),
    "grpo_s": ("advantage.bonus", (0.1, 0.5)),
    "flexible_id": ("control.boundary", (0.5, 0.25)),
    "flexible_did": ("control.boundary", (0.5, 0.25)),
    "flexible_od": ("control.floor", (0.2, 0.4)),
    "stare": ("credit.stare.boost", (3, 5)),  # at the paper's 1.1 the entropy falls as without
    "stare_c2": ("credit.stare.boost", (3, 5)),
    "stare_adaptive": ("credit.stare.boost", (1.4, 1.8)),  # run with W up to 3 and 5, in steps of 0.04 and 0.08
}
WITH = {  # what moves with a knob, or is the experiment's and not the method's
    "grpo": {"clipping.high": "${.low}"},
    "stare": {"control.target": 0.15},
    "stare_c2": {"control.target": 0.15, "credit.stare.damp": 0.5},
    "stare_adaptive": {"control.target": 0.15},
}


def run(folder: Path, jobs: int, extra: list[str]) -> None:
    """All methods at once, `jobs` runs of each."""
    common = [
        "-m",
        "isentropic.train",
        "-m",
        "experiment=quickstart",
        "rollout.evaluation.split=validation",
        "seed=100",
    ]
    common += ["trainer.val_check_interval=260", "callbacks.samples.every=65", f"hydra.launcher.jobs={jobs}", *extra]
    sweeps = []
    for method, (knob, values) in KNOBS.items():
        own = [f"algorithm.{key}={value}" for key, value in WITH.get(method, {}).items()]
        grid = [f"algorithm.{knob}={','.join(map(str, values))}", f"policy.optimization.lr={','.join(map(str, RATES))}"]
        command = [sys.executable, *common, f"algorithm={method}", *own, *grid, f"hydra.sweep.dir={folder / method}"]
        folder.mkdir(parents=True, exist_ok=True)
        sweeps.append(subprocess.Popen(command, stdout=(folder / f"{method}.log").open("w"), stderr=subprocess.STDOUT))
    for method, sweep in zip(KNOBS, sweeps, strict=True):
        if sweep.wait():
            print(f"{method}: see {folder / method}.log")


def choose(folder: Path) -> None:
    chosen: dict[str, dict[str, object]] = {}
    print("| method | lr | knob | avg@8 | pass@16 |\n| --- | --- | --- | --- | --- |")
    for method, (knob, _) in KNOBS.items():
        tried = []
        for path in sorted((folder / method).rglob("metrics.csv")):
            with path.open() as file:
                last = [row for row in csv.DictReader(file) if row.get("eval/avg@8")][-1]
            settings = dict(line[2:].split("=", 1) for line in overrides(path.parent) if "=" in line)
            rate, value = (float(settings[key]) for key in ("policy.optimization.lr", f"algorithm.{knob}"))
            tried.append((float(last["eval/avg@8"]), float(last["eval/pass@16"]), rate, value))
        best = max(tried, key=lambda run: run[0] + run[1])
        for accuracy, diversity, rate, value in tried:
            mark = "**" if (accuracy, diversity, rate, value) == best else ""
            print(f"| {mark}{method}{mark} | {rate:g} | {knob} {value} | {accuracy:.3f} | {diversity:.3f} |")
        if best[2] != RATES[0]:
            print(f"\n{method} is best at another learning rate: policy.optimization.lr={best[2]:g}\n")
        chosen[method] = {knob: best[3], **WITH.get(method, {})}
    print(f"\n{shown(chosen)}")


def overrides(folder: Path) -> list[str]:
    return (folder / ".hydra/overrides.yaml").read_text().splitlines()


def shown(chosen: dict[str, dict[str, object]]) -> str:
    """What belongs into the experiment's file."""
    own = OmegaConf.create()
    for method, settings in chosen.items():
        for key, value in settings.items():
            OmegaConf.update(own, f"overrides.algorithm.{method}.{key}", value)
    return OmegaConf.to_yaml(own)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "choose"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=4, help="runs of one method at once")
    options, extra = parser.parse_known_args()
    run(options.folder, options.jobs, extra) if options.what == "run" else choose(options.folder)
