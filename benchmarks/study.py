"""A comparison as it is to be run: groups by seeds, a run per core, judged at the end; goes on where it stopped.

    python benchmarks/study.py benchmarks/studies/grid.yaml logs/grid --cores 16 --minutes 9 --out results
    python benchmarks/study.py benchmarks/studies/plasticity.yaml logs/plasticity --gpus 2 --each 4 --out results

Runs come in the order of their seeds, all groups of one before the next, so that a cut leaves pairs. When the minutes
are over runs save and leave, and the same command goes on with them. A run that is judged keeps no weights (0.25 MB are
left), and `isentropic report logs/grid` finds its scores beside its metrics. Where a study has `before`, each run
goes on from the weights of a training by that and its group's arguments (in logs/plasticity_before), by `common` alone.

On one core of an AMD EPYC (torch 2.13.0+cpu, sampler=transformers, countdown_grid): 0.53 s a rollout, 3.5 s an
evaluation of 256 x 16, 10 s to start, 15 s to judge: 175 s for a run of grid.yaml, 760 s for one of long.yaml.
"""

import csv
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from isentropic.runs import files
from isentropic.runs.metrics import metrics_files, read_metrics
from isentropic.runs.run import find
from isentropic.runs.status import read_status

JUDGED, ANSWERS = "judged.json", "answers.csv.gz"
KS, VOTES = (1, 2, 4, 8, 16), (8, 16)  # of pass@k and of maj@k
LEAVE = 90.0  # seconds that a run may take to save itself
CURVES = (
    "eval/.+|entropy/(mean|q50|q70|q80|q90|predicted_change|measured_change)|control/(up|target)|policy/grad_norm"
    "|rollout/(reward|all_right|all_wrong|length)|credit/stare(_precision)?|clipping/clipped_(high|low)"
)


@dataclass(frozen=True)
class Study:
    """A file of benchmarks/studies."""

    common: list[str]  # arguments of every run
    groups: dict[str, list[str]]  # label → further arguments
    seeds: int  # of each group
    more: dict[str, int] = field(default_factory=dict[str, int])  # label → seeds, where there are more of it
    first: int = 0  # of the seeds
    checkpoints: int = 1  # the last so many are judged
    before: list[str] = field(default_factory=list[str])  # of a training before each run, with its group's

    @property
    def jobs(self) -> list[tuple[str, int]]:
        counts = {label: self.more.get(label, self.seeds) for label in self.groups}
        return [(g, self.first + s) for s in range(max(counts.values())) for g in self.groups if s < counts[g]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="a YAML file: common, groups, seeds, more, first, checkpoints")
    parser.add_argument("runs", type=Path, help="where the runs' folders are, or will be")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="runs at one time")
    parser.add_argument("--gpus", type=int, default=0, help="the runs share these, and are tied to no core")
    parser.add_argument("--each", type=int, default=1, help="runs at one time on each GPU")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which runs save and leave")
    parser.add_argument("--out", type=Path, help="where rows.csv and curves.csv.gz are written; else beside the runs")
    parser.add_argument(
        "--every", type=int, default=1, help="of the curves, one rollout of so many, and those evaluated"
    )
    parser.add_argument("--judge", action="store_true", help="only judge the one run whose folder `runs` is")
    asked = parser.parse_args(arguments)
    study = Study(**yaml.safe_load(asked.study.read_text()))
    if asked.judge:
        return judge(asked.runs, study.checkpoints)
    free = places(asked.cores, asked.gpus, asked.each)
    carry_out(study, asked.study, asked.runs, free, time.monotonic() + 60 * asked.minutes)
    write(study, asked.runs, asked.out or asked.runs, asked.every)


@dataclass(frozen=True)
class Place:
    """Where a run is: on a core of its own, or on a GPU, one of several there."""

    core: int | None = None
    gpu: str | None = None
    of_gpu: int = 0


def places(cores: int, gpus: int, each: int) -> list[Place]:
    if gpus:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
        return [Place(gpu=gpu, of_gpu=number) for number in range(each) for gpu in visible.split(",")[:gpus]]
    there = sorted(os.sched_getaffinity(0))[:cores] if hasattr(os, "sched_getaffinity") else list(range(cores))
    return [Place(core=core) for core in there]


def carry_out(study: Study, file: Path, runs: Path, free: list[Place], deadline: float) -> None:
    """Each run in a place of its own. What fails is named, and does not keep others from running."""
    waiting, failed = list(study.jobs), 0
    working: dict[Place, tuple[tuple[str, int], subprocess.Popen[bytes]]] = {}
    while (waiting or working) and time.monotonic() < deadline:
        while free and waiting:
            job = waiting.pop(0)
            if command := next_step(study, file, runs, *job):
                place = free.pop(0)
                working[place] = job, started(command, folder_of(runs, *job), place)
        for place, (job, process) in list(working.items()):
            if process.poll() is not None:
                del working[place]
                free.append(place)
                if process.returncode:
                    failed += 1
                    print(f"{job[0]}, seed {job[1]} failed; see {folder_of(runs, *job)}.log", flush=True)
                else:
                    waiting.insert(0, job)  # what comes next of it, if anything does
        time.sleep(0.1)
    for _, process in working.values():
        process.send_signal(signal.SIGTERM)
    for _, process in working.values():
        try:
            process.wait(LEAVE)
        except subprocess.TimeoutExpired:
            process.kill()
    done = sum((folder_of(runs, *job) / JUDGED).is_file() for job in study.jobs)
    print(f"{done} of {len(study.jobs)} runs are done, {failed} failed", flush=True)


def folder_of(runs: Path, label: str, seed: int) -> Path:
    return runs / label / str(seed)


def next_step(study: Study, file: Path, runs: Path, label: str, seed: int) -> list[str] | None:
    """To train, to go on, to judge; None for a run that is done. Where there is a training before: that, its export."""
    folder = folder_of(runs, label, seed)
    if (folder / JUDGED).is_file():
        return None
    own = [*study.common, *study.groups[label]]
    if study.before:
        first = folder_of(runs.with_name(f"{runs.name}_before"), label, seed)
        if not is_done(first):
            return training([*study.before, *study.groups[label]], first, seed)
        weights = first.with_name(f"{seed}_weights")
        if not weights.is_dir():
            where = [f"ckpt_path={first}", f"out={weights}", "dtype=float32"]
            return [sys.executable, "-m", "isentropic", "export", *where]
        shutil.rmtree(first / files.CHECKPOINTS, ignore_errors=True)  # of many runs they would fill the disk
        own = [*study.common, f"policy.model.path={weights.absolute()}"]
    if is_done(folder):
        return [sys.executable, str(Path(__file__).resolve()), str(file), str(folder), "--judge"]
    return training(own, folder, seed)


def is_done(folder: Path) -> bool:
    status = read_status(folder)
    return status is not None and status.status == "done"


def training(settings: list[str], folder: Path, seed: int) -> list[str]:
    own = [*settings, f"seed={seed}", f"hydra.run.dir={folder}", "ckpt_path=last"]
    return [sys.executable, "-m", "isentropic.train", *own]


def started(command: list[str], folder: Path, place: Place) -> subprocess.Popen[bytes]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    variables = os.environ | {"HF_HUB_OFFLINE": "1"}
    variables |= {"OMP_NUM_THREADS": "1"} if place.gpu is None else {"CUDA_VISIBLE_DEVICES": place.gpu}
    with Path(f"{folder}.log").open("ab") as log:
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)
    if place.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process.pid, {place.core})
    return process


def judge(folder: Path, checkpoints: int) -> None:
    """The last checkpoints of a run, at temperature 1, at 0.5 and greedily; then its weights are thrown away."""
    from omegaconf import OmegaConf

    from isentropic.config.build import build
    from isentropic.reward.total import Rewards
    from isentropic.sampler import Decoding

    cfg = OmegaConf.load(folder / files.CONFIG)
    assert not isinstance(cfg, list)
    task, sampler = build(cfg, "task"), build(cfg, "sampler")
    data = build(cfg, "rollout", task=task, sampler=sampler, reward=Rewards(build(cfg, "reward")))
    limits = {"min_p": 0.0, "max_tokens": data.evaluation.decoding.max_tokens, "stop": data.evaluation.decoding.stop}
    ways = {
        "t1": (Decoding(temperature=1.0, top_p=1.0, top_k=0, **limits), data.evaluation.count),
        "t0.5": (Decoding(temperature=0.5, top_p=1.0, top_k=0, **limits), data.evaluation.count),
        "greedy": (Decoding(temperature=0.0, top_p=1.0, top_k=0, **limits), 1),
    }
    sampler.start()
    found: dict[int, dict[str, float]] = {}
    unfinished = folder / f".{ANSWERS}"
    with gzip.open(unfinished, "wt", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["rollout", "way", "problem", "child", "right", "text"])
        for rollout, path in saved(folder)[-checkpoints:]:
            sampler.update_weights(weights(path))
            for way, (decoding, count) in ways.items():
                texts, right = answers(data, decoding, count)
                found.setdefault(rollout, {}).update(
                    {f"{way}/{name}": value for name, value in scores(texts, right, task.markers()).items()}
                )
                rows = ((p, c, int(right[p][c]), text) for p, some in enumerate(texts) for c, text in enumerate(some))
                lines.writerows([rollout, way, *row] for row in rows)
    sampler.stop()
    task.close()
    unfinished.rename(folder / ANSWERS)
    as_metrics(folder, found)
    files.write_whole(folder / JUDGED, json.dumps(found, indent=1) + "\n")
    shutil.rmtree(folder / files.CHECKPOINTS)
    for name in (files.CURVES, files.SAMPLES, files.CONFIG_SOURCES):
        (folder / name).unlink(missing_ok=True)


def saved(folder: Path) -> list[tuple[int, Path]]:
    """Checkpoints by the rollouts behind them."""
    found = (folder / files.CHECKPOINTS).glob("rollout_*.ckpt")
    return sorted((int(path.stem.removeprefix("rollout_")), path) for path in found)


def weights(checkpoint: Path) -> Iterator[tuple[str, Any]]:
    from isentropic.policy.checkpoint_checks import read
    from isentropic.policy.export import PREFIX

    state = read(str(checkpoint))["state_dict"]
    return ((name.removeprefix(PREFIX), value) for name, value in state.items() if name.startswith(PREFIX))


def answers(data: Any, decoding: Any, count: int) -> tuple[list[list[str]], list[list[bool]]]:
    """Texts and verdicts of `count` answers to each problem that the run itself was evaluated on."""
    settings = data.evaluation
    problems = data.problems_of(settings.split)[: settings.problems]
    generator = data.val_dataloader().generator
    texts: list[list[str]] = []
    right: list[list[bool]] = []
    for first in range(0, len(problems), settings.batch):
        asked = problems[first : first + settings.batch]
        groups = range(first, first + len(asked))
        _, given = generator.generate(asked, groups, count, decoding, draw="test")
        for start in range(0, len(given), count):
            texts.append([one.text for one in given[start : start + count]])
            right.append([one.verdict.correct for one in given[start : start + count]])
    return texts, right


def scores(texts: list[list[str]], right: list[list[bool]], markers: list[str]) -> dict[str, float]:
    """avg, pass@k and maj@k, as far as there are answers for them."""
    import torch

    from isentropic.evaluation.pass_at_k import PassAtK
    from isentropic.evaluation.scores import average

    flags = torch.tensor(right)
    count = flags.shape[1]
    counts, asked = flags.sum(1), torch.full((len(flags),), count)
    found = {f"avg@{count}": average(counts, asked)["value"]}
    if count == 1:
        return found
    found |= {f"pass@{k}": PassAtK(k, 1).score(counts, asked).mean().item() for k in KS if k <= count}
    return found | {f"maj@{k}": votes(texts, right, k, markers) for k in VOTES if k <= count}


def votes(texts: list[list[str]], right: list[list[bool]], k: int, markers: list[str]) -> float:
    """maj@k. What is voted for stands after the task's marker; where it has none, it is the whole text."""
    from isentropic.evaluation.maj_at_k import RIGHT, majority
    from isentropic.task.answers import after_marker

    marker = markers[0] if markers else ""
    won: list[float] = []
    for some, flags in zip(texts, right, strict=True):
        given = [after_marker(text, marker) for text in some]
        classes = [RIGHT if flag else (one,) if one else None for one, flag in zip(given, flags, strict=True)]
        won.append(majority(classes, k))
    return sum(won) / len(won)


def as_metrics(folder: Path, found: dict[int, dict[str, float]]) -> None:
    """As one more part of the run's metrics, where reports read them; of several checkpoints their mean as well."""
    last, names = max(found), list(next(iter(found.values())))
    means = {f"last{len(found)}/{n}": sum(one[n] for one in found.values()) / len(found) for n in names}
    rows = found | ({last: found[last] | means} if len(found) > 1 else {})
    with (folder / f"metrics.{len(metrics_files(folder))}.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["step", *(f"eval/{name}" for name in rows[last])])
        lines.writerows([rollout, *(values.get(name, "") for name in rows[last])] for rollout, values in rows.items())


def write(study: Study, runs: Path, out: Path, every: int = 1) -> None:
    """rows.csv: a line per run, its scores the means over the judged checkpoints. curves.csv.gz: a line per rollout.

    Of a training before each run, before.csv.gz has the same.
    """
    out.mkdir(parents=True, exist_ok=True)
    jobs = [job for job in study.jobs if (folder_of(runs, *job) / JUDGED).is_file()]
    rows = [row(runs, *job) for job in jobs]
    with (out / "rows.csv").open("w", newline="") as file:
        lines = csv.DictWriter(file, list(dict.fromkeys(name for one in rows for name in one)) or ["group"])
        lines.writeheader()
        lines.writerows(rows)
    write_curves(out / "curves.csv.gz", [(job, folder_of(runs, *job)) for job in jobs], every)
    if study.before:
        first = runs.with_name(f"{runs.name}_before")
        write_curves(out / "before.csv.gz", [(job, folder_of(first, *job)) for job in jobs], every)


def write_curves(file: Path, folders: Sequence[tuple[tuple[str, int], Path]], every: int) -> None:
    series = [(job, read_metrics(metrics_files(folder), CURVES).series) for job, folder in folders]
    names = sorted({name for _, one in series for name in one if not name.endswith(("_low", "_high"))})
    with gzip.open(file, "wt", newline="") as zipped:
        lines = csv.writer(zipped)
        lines.writerow(["group", "seed", "rollout", *names])
        for (label, seed), one in series:
            cells: dict[int, dict[str, float]] = {}
            for name in names:
                if name in one:
                    for step, value in zip(one[name].steps.tolist(), one[name].values.tolist(), strict=True):
                        cells.setdefault(step, {})[name] = value
            for step, values in sorted(cells.items()):
                if step % every and not any(name.startswith("eval/") for name in values):
                    continue
                lines.writerow([label, seed, step, *(f"{values[n]:.5g}" if n in values else "" for n in names)])


def row(runs: Path, label: str, seed: int) -> dict[str, Any]:
    folder = folder_of(runs, label, seed)
    judged = json.loads((folder / JUDGED).read_text())
    (run,) = find([folder])
    status = read_status(folder)
    assert status is not None
    entropy = run.metrics["entropy/mean"].values
    first = next(iter(judged.values()))
    means = {name: round(sum(one[name] for one in judged.values()) / len(judged), 6) for name in first}
    return {
        "group": label,
        "seed": seed,
        "rollouts": run.rollouts,
        "judged": " ".join(judged),
        "host": status.host,
        "torch": status.versions.get("torch"),
        "seconds": round(status.seconds),
        "entropy": round(float(entropy[-max(1, len(entropy) // 10) :].mean()), 6),
        **means,
    }


if __name__ == "__main__":
    main()
