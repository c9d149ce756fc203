"""What every protocol takes, by its dry run: problems, answers, tokens at most, GPU hours at most.

    python benchmarks/protocols.py --data ../shared/data --out benchmarks/results/protocols.json

Each protocol with a model of its paper that one card holds, and with the experiment that lends the training's length
where the protocol takes one. Sets that the folder lacks are counted as published and named (`unread`).
"""

import argparse
import json
from pathlib import Path

from isentropic.config.build import build
from isentropic.config.dry_run import architecture_of, counted
from isentropic.judge import composed
from isentropic.planning.evaluation import hours, ranks_for

SMALL, MATH = "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "Qwen/Qwen2.5-Math-7B"
STARE = ["experiment=stare_qwen2_5_math_7b"]
MODELS = {
    "stare_train": (MATH, STARE),
    "stare": (MATH, STARE),
    "stapo_aligned": ("Qwen/Qwen3-8B-Base", []),
    "stapo_cool": ("Qwen/Qwen3-8B-Base", []),
    "just_rl": (SMALL, []),
    "dapo": ("Qwen/Qwen2.5-14B", []),
    "entropy_20": ("Qwen/Qwen3-8B-Base", []),
    "kl_cov_script": ("Qwen/Qwen2.5-7B", []),
    "kl_cov": ("Qwen/Qwen2.5-7B", []),
    "flexible": ("Qwen/Qwen2.5-7B", []),
    "gtpo": ("Qwen/Qwen2.5-7B", []),
    "qae": ("Qwen/Qwen3-8B-Base", []),
    "simpletir": ("Qwen/Qwen2.5-7B", []),
    "qwen_math": (MATH, []),
    "sober": (SMALL, []),
    "gsm8k_cot": ("HuggingFaceTB/SmolLM2-135M-Instruct", []),
    "quick": (MATH, STARE),
}


def planned(name: str, model: str, more: list[str], data: str, card: str) -> dict[str, object]:
    experiment = next((one.partition("=")[2] for one in more if one.startswith("experiment=")), None)
    arguments = [f"subject={model}", f"evaluation/protocol={name}", f"paths.data={data}", f"card={card}", *more]
    cfg, _ = composed(arguments, model, experiment)
    asked, said = counted(cfg, build(cfg, "evaluation.protocol"))
    device, architecture = build(cfg, "card"), architecture_of(cfg)
    took = hours(architecture, device, build(cfg, "lengths"), asked)
    sets = {
        one.name: {"problems": one.problems, "count": one.count, "answers": one.answers, "tokens": one.tokens,
                   "gpu_hours": round(time, 2)}
        for one, time in zip(asked, took, strict=True)
    }  # fmt: skip
    sums = {
        "problems": sum(one.problems for one in asked), "answers": sum(one.answers for one in asked),
        "tokens": sum(one.tokens for one in asked), "gpu_hours": round(sum(took), 2),
    }  # fmt: skip
    return {
        "model": model, "cards": f"{ranks_for(architecture, device)} x {device.name}", **sums, "sets": sets,
        "said": said,
    }  # fmt: skip


def rows(found: dict[str, dict[str, object]]) -> list[str]:
    """A table in Markdown."""
    lines = ["| protocol | model | problems | answers | tokens at most | GPU hours at most |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for name, one in found.items():
        model = str(one["model"]).partition("/")[2]
        numbers = " | ".join(f"{one[key]:,}" for key in ("problems", "answers", "tokens", "gpu_hours"))
        lines.append(f"| `{name}` | {model} | {numbers} |")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PROTOCOL", help="some; all where none is named")
    parser.add_argument("--data", default="data", help="the folder with the sets as files")
    parser.add_argument("--card", default="h100")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(MODELS):
        parser.error(f"{', '.join(sorted(unknown))} is no protocol; there are {', '.join(MODELS)}")
    found = {name: planned(name, *MODELS[name], options.data, options.card) for name in options.names or MODELS}
    print("\n".join(rows(found)))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
