"""What peers have in common: whether one is installed, what it is asked, and its figures beside ours."""

import argparse
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from isentropic.runs.files import write_whole
from isentropic.runs.status import installed

SIZES = ("prompts", "group_size", "prompt_tokens", "response_tokens", "updates", "steps", "micro_batch")


def missing(requirement: str) -> str | None:
    """Why a peer cannot run here; the last part of its version is free."""
    name, wanted = requirement.split("==")
    wanted = wanted.rpartition(".")[0]
    try:
        found = version(name)
    except PackageNotFoundError:
        found = "none"
    if f"{found}.".startswith(f"{wanted}."):
        return None
    return f"benchmark.vs={name} compares with {name} {wanted}, and here is {found}; install {requirement}"


def words(args: argparse.Namespace) -> list[str]:
    from isentropic.task.noise import Noise

    problems = Noise(words=args.prompt_tokens, vocabulary=args.vocabulary, seed=0).problems("train")
    return [problem.prompt for problem in problems[: args.prompts * (args.steps + 1)]]


def arguments() -> argparse.Namespace:
    """Of any peer's command line."""
    cli = argparse.ArgumentParser()
    cli.add_argument("--folder", required=True)
    for name in (*SIZES, "vocabulary"):
        cli.add_argument(f"--{name.replace('_', '-')}", type=int, required=True)
    cli.add_argument("--share", type=float, required=True)
    cli.add_argument("--out", required=True)
    return cli.parse_args()


def write(
    out: Path, seconds: list[float], memory: dict[str, float], name: str, more: dict[str, Any] | None = None
) -> None:
    found = {
        "versions": {package: installed(package) for package in (name, "torch", "transformers", "vllm")},
        "seconds": seconds,
        "memory": memory,
    } | (more or {})
    write_whole(out, json.dumps(found, indent=1) + "\n")


def beside(own: dict[str, Any], out: Path, code: int | None, name: str) -> dict[str, Any]:
    """The peer's figures as far as it came, and ours in parts of them; `code` is None where it was not waited for.

    Its first rollout warms up, as ours does, and counts only where it was the only one.
    """
    peer: dict[str, Any] = {"name": name, "exit_code": code}
    if out.exists():
        peer |= json.loads(out.read_text(encoding="utf-8"))
    if not (seconds := peer.get("seconds")):
        return {"peer": peer}
    peer["step"] = min(seconds[1:] or seconds)
    ratio = {"seconds": own["seconds"]["median"]["step"] / peer["step"]}
    if own["memory"]:
        ratio["used"] = max(own["memory"][f"{n}_used"] for n in ("update", "rollout")) / peer["memory"]["used"]
    return {"peer": peer, "ratio": ratio}
