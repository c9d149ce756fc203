"""One model judged as a folder, as a checkpoint, by a server, and killed on the way: are the scores the same?

    python benchmarks/subjects.py models/smollm2 --data ../shared/data --out benchmarks/results/subjects.json  # a GPU
    python benchmarks/subjects.py models/smollm2 --data ../shared/data --set gsm8k_cot "gsm8k[6]" --count 2 --batch 4 \\
        --device cpu --out subjects.json                                             # fewer problems, on a CPU

Each subject answers with the same seeds. The checkpoint is made, of one rollout whose learning rate moves no weight,
unless one of the same weights is given. The file is written anew after each subject, with the error of one that fails,
and the exit code is 1. The same command goes on where it was stopped.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Found = tuple[str, dict[str, Any]]
PARTS = "folder", "killed", "checkpoint", "server"
SETS = [("gsm8k_cot", "gsm8k[200]"), ("qwen_math", "math500[100]")]
ENGINE = {
    "cpu": ["sampler=vllm", "sampler.dtype=float32"],
    "transformers": ["sampler=transformers"],  # without vLLM, and without a server
    "cuda": ["sampler=vllm_gpu", "sampler.dtype=float32", "sampler.enforce_eager=true",
             "sampler.gpu_memory_utilization=0.08", "sampler.kv_cache_gib=12"],
}  # fmt: skip
SERVER = {  # beside the engine of the others
    "cpu": ["--enforce-eager", "--gpu-memory-utilization", "0.2", "--kv-cache-memory-bytes", str(2**30)],
    "cuda": ["--enforce-eager", "--gpu-memory-utilization", "0.08", "--kv-cache-memory-bytes", str(12 * 2**30)],
}
OF_A_SERVER = {"VLLM_NO_USAGE_STATS": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
UNMOVED = [  # a rollout that learns nothing, of a task that needs no files
    "experiment=quickstart", "policy=smollm2", "policy.model.compute_dtype=float32", "sampler=transformers",
    "rollout.steps=1", "rollout.batch_size=8", "rollout.group_size=4",
    "rollout.decoding.max_tokens=8", "policy.optimization.lr=1.0e-30", "policy.optimization.weight_decay=0.0",
    "policy.optimization.mini_batch=8", "policy.optimization.micro_batch=8", "+trainer.limit_val_batches=0",
    "trainer=cpu",
]  # fmt: skip
EXAM = "evaluation.protocol.exams.greedy"  # of both protocols


def settings(given: argparse.Namespace, protocol: str, name: str) -> list[str]:
    decoding = [f"{EXAM}.decoding.temperature={given.temperature}", f"{EXAM}.count={given.count}"]
    return [
        f"evaluation/protocol={protocol}", f'{EXAM}.sets=["{name}"]', *decoding, f"paths.data={given.data}",
        f"batch={given.batch}", *given.settings,
    ]  # fmt: skip


def evaluated(subject: str, folder: Path, lines: list[str], killed: bool) -> dict[str, Any]:
    """Runs the command, which is killed after its first answers and given once more where that is asked for."""
    command = [sys.executable, "-m", "isentropic", "eval", f"subject={subject}", f"folder={folder}", *lines]
    begun, at = time.monotonic(), 0
    if killed:
        with folder.with_suffix(".killed.log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            while process.poll() is None and not answers(folder):
                time.sleep(0.2)
            process.send_signal(signal.SIGKILL)
            process.wait()
        at = len(answers(folder))
    with folder.with_suffix(".log").open("w") as log:
        code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
    said = folder.with_suffix(".log").read_text(errors="replace").splitlines()
    seconds, found = time.monotonic() - begun, answers(folder)
    tokens = sum(int(one.get("tokens") or 0) for one in found.values())
    return {
        "code": code, "answers": len(found), "answers_when_killed": at, "seconds": round(seconds, 1), "tokens": tokens,
        "tokens_per_second": round(tokens / seconds, 1), "scores": scores(folder),
        **({"error": said[-1] if said else ""} if code else {}),
    }  # fmt: skip


def answers(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """By problem and the answer's number; of a file whose last line may be cut off."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    file = folder / "answers.jsonl"
    for line in file.read_text().splitlines(keepends=True) if file.exists() else []:
        if line.endswith("\n"):
            one = json.loads(line)
            found[one["problem"], one["child"]] = one
    return found


def scores(folder: Path) -> Any:
    file = folder / "scores.json"
    return (
        {name: one["avg"]["value"] for name, one in json.loads(file.read_text())["sets"].items()}
        if file.exists()
        else None
    )


def served(given: argparse.Namespace, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A server of vLLM, as anybody starts one, on the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", given.model, "--dtype", "float32"]
    command += ["--host", "127.0.0.1", "--port", str(port), *SERVER[given.device]]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, start_new_session=True, env=OF_A_SERVER | os.environ
        )  # fmt: skip
    return process, f"http://127.0.0.1:{port}"


def judged(given: argparse.Namespace, parts: Sequence[str], protocol: str, name: str, url: str) -> Iterator[Found]:
    """Of each part on one set, what came of it."""
    for part in parts:
        subject = {"checkpoint": str(given.checkpoint), "server": url}.get(part, str(given.model))
        engine = [] if part == "server" else ENGINE[given.device]
        folder = given.work / f"{part}_{protocol}"
        found = evaluated(subject, folder, [*settings(given, protocol, name), *engine], part == "killed")
        first = answers(given.work / f"{parts[0]}_{protocol}")
        same = [one["text"] == first.get(key, {}).get("text") for key, one in answers(folder).items()]
        yield part, found | {"texts_as_the_first_s": f"{sum(same)}/{len(same)}"}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a Hugging Face folder")
    parser.add_argument("--settings", nargs="*", default=[], help="of every evaluation")
    parser.add_argument("--data", required=True, help="folder of the sets as files")
    parser.add_argument("--checkpoint", type=Path, help="of ours, of the same weights; without it one is made")
    parser.add_argument("--set", nargs=2, action="append", metavar=("PROTOCOL", "SET"), help="in place of both")
    parser.add_argument("--count", type=int, default=4, help="answers of each problem")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", choices=ENGINE, default="cuda")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--work", type=Path, default=Path("logs/subjects"), help="what is there is not asked again")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    parts = [part for part in given.parts if part != "server" or given.device in SERVER]
    given.work.mkdir(parents=True, exist_ok=True)
    if "checkpoint" in parts and given.checkpoint is None:
        given.checkpoint = unmoved(given.model, given.work / "run")
    server, url = served(given, given.work / "server.log") if "server" in parts else (None, "")
    found: dict[str, dict[str, Any]] = {}
    try:
        if server is not None:
            wait(url, server)
        for protocol, name in given.set or SETS:
            for part, one in judged(given, parts, protocol, name, url):
                found.setdefault(name, {})[part] = one
                given.out.write_text(json.dumps(found, indent=1) + "\n")
                print(name, part, json.dumps(one), flush=True)
    finally:
        if server is not None:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()
    if any(one["code"] for of_set in found.values() for one in of_set.values()):
        raise SystemExit(1)


def unmoved(model: str, folder: Path) -> Path:
    """A checkpoint of ours of a model's own weights. Raises SystemExit where none can be made."""
    checkpoint = folder / "checkpoints" / "last.ckpt"
    if not checkpoint.exists():
        settings = [*UNMOVED, f"policy.model.path={model}", f"hydra.run.dir={folder}"]
        with folder.with_suffix(".log").open("w") as log:
            command = [sys.executable, "-m", "isentropic", "train", *settings]
            code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
        if code:
            raise SystemExit(f"no checkpoint of {model} was made; {log.name} says why, and --checkpoint gives one")
    return checkpoint


def wait(url: str, server: "subprocess.Popen[bytes]") -> None:
    """Until a server answers or has ended; the evaluation says why where it never does."""
    place, end = url.removeprefix("http://").split(":"), time.monotonic() + 600
    while time.monotonic() < end and server.poll() is None:
        try:
            socket.create_connection((place[0], int(place[1])), 5).close()
        except OSError:
            time.sleep(1)
        else:
            return


if __name__ == "__main__":
    main()
