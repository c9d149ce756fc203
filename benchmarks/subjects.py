"""One model judged as a folder, as a checkpoint, by a server, and killed on the way: are the scores the same?

    python benchmarks/subjects.py models/smollm2 --data ../shared/data --checkpoint RUN/checkpoints/last.ckpt \\
        --out benchmarks/results/subjects.json                                       # on a GPU
    python benchmarks/subjects.py models/smollm2 --data ../shared/data --set gsm8k_cot "mawps[12]" --count 2 \\
        --device cpu --out subjects.json                                             # fewer problems, on a CPU

Each subject answers with the same seeds. The file is written anew after each.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PARTS = "folder", "killed", "checkpoint", "server"
SETS = [("gsm8k_cot", "gsm8k[200]"), ("qwen_math", "math500[100]")]
ENGINE = {
    "cpu": ["sampler=vllm", "sampler.dtype=float32"],
    "cuda": ["sampler=vllm_gpu", "sampler.dtype=float32", "sampler.enforce_eager=true",
             "sampler.gpu_memory_utilization=0.08", "sampler.kv_cache_gib=6"],
}  # fmt: skip
SERVER = {
    "cpu": [],
    "cuda": ["--enforce-eager", "--gpu-memory-utilization", "0.08", "--kv-cache-memory-bytes", str(6 * 2**30)],
}  # beside the engine of the others
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
    seconds, found = time.monotonic() - begun, answers(folder)
    tokens = sum(int(one.get("tokens") or 0) for one in found.values())
    return {
        "code": code, "answers": len(found), "answers_when_killed": at, "seconds": round(seconds, 1), "tokens": tokens,
        "tokens_per_second": round(tokens / seconds, 1), "scores": scores(folder),
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
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
    return process, f"http://127.0.0.1:{port}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a Hugging Face folder")
    parser.add_argument("--settings", nargs="*", default=[], help="of every evaluation")
    parser.add_argument("--data", required=True, help="folder of the sets as files")
    parser.add_argument("--checkpoint", help="of ours, of the same weights; without it that part is left out")
    parser.add_argument("--set", nargs=2, action="append", metavar=("PROTOCOL", "SET"), help="in place of both")
    parser.add_argument("--count", type=int, default=4, help="answers of each problem")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", choices=ENGINE, default="cuda")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--work", type=Path, default=Path("logs/subjects"), help="what is there is not asked again")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    server, url = served(given, given.work / "server.log") if "server" in given.parts else (None, "")
    found: dict[str, Any] = {}
    try:
        for protocol, name in given.set or SETS:
            lines, of_set = settings(given, protocol, name), found.setdefault(name, {})
            for part in given.parts:
                subject = {"checkpoint": given.checkpoint, "server": url}.get(part, given.model)
                if subject is None:
                    continue
                folder = given.work / f"{part}_{protocol}"
                engine = [] if part == "server" else ENGINE[given.device]
                if part == "server":
                    wait(url)
                of_set[part] = evaluated(subject, folder, [*lines, *engine], part == "killed")
                first = answers(given.work / f"{given.parts[0]}_{protocol}")
                same = [one["text"] == first.get(key, {}).get("text") for key, one in answers(folder).items()]
                of_set[part]["texts_as_the_first_s"] = f"{sum(same)}/{len(same)}"
                given.out.write_text(json.dumps(found, indent=1) + "\n")
                print(name, part, json.dumps(of_set[part]), flush=True)
    finally:
        if server is not None:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()


def wait(url: str) -> None:
    """Until a server answers; the evaluation says why where it never does."""
    place, end = url.removeprefix("http://").split(":"), time.monotonic() + 600
    while time.monotonic() < end:
        try:
            socket.create_connection((place[0], int(place[1])), 5).close()
        except OSError:
            time.sleep(1)
        else:
            return


if __name__ == "__main__":
    main()
