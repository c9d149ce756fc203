"""The peer: verl's GRPO with FSDP2 and vLLM on one GPU, on the same model folder and sizes, in its own best settings.

python -m isentropic.benchmarking.verl --folder MODEL --prompts 64 --group-size 8 ... --out peer.json
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from isentropic.benchmarking import peer

REQUIREMENT = "verl==0.9.1"
ENVIRONMENT = {
    "HYDRA_FULL_ERROR": "1",
    "PYTHONUNBUFFERED": "1",
    "RAY_AUTH_MODE": "disabled",
    "RAY_DEDUP_LOGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # else it ends workers where memory only seems to be scarce
    "VLLM_DISABLE_COMPILE_CACHE": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
LINE = re.compile(r"\bstep:(\d+) - ")
FIGURE = re.compile(r"timing_s/(\w+):(?:np\.float\d+\()?([0-9.e+-]+)")


def compute_score(*_: Any, solution_str: str, **__: Any) -> float:
    """verl loads it from this file, by this name."""
    return float(len(solution_str) % 2)


def settings(args: argparse.Namespace, own: Path) -> list[str]:
    """Its fastest ones where nothing is forgone: no reference, critic or KL, no forward before the update, as the
    engine's log-probs are the old ones, packed rows, Liger's kernels, no checkpointing, weights not sharded."""
    length = args.prompt_tokens + args.response_tokens
    values = {
        "algorithm.adv_estimator": "grpo",
        "algorithm.rollout_correction.bypass_mode": True,
        "data.train_files": own / "prompts.parquet",
        "data.val_files": own / "prompts.parquet",
        "data.train_batch_size": args.prompts,
        "data.max_prompt_length": args.prompt_tokens,
        "data.max_response_length": args.response_tokens,
        "data.shuffle": False,
        "data.dataloader_num_workers": 0,
        "trainer.n_gpus_per_node": 1,
        "trainer.nnodes": 1,
        "trainer.total_epochs": 1,
        "trainer.total_training_steps": args.steps,
        "trainer.logger": "[console]",
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": -1,
        "trainer.resume_mode": "disable",
        "trainer.default_local_dir": own / "checkpoints",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 2,
        "reward.num_workers": 4,
        "reward.custom_reward_function.path": Path(__file__).resolve(),
        "ray_kwargs.ray_init.num_cpus": 24,  # places for its workers, which mostly wait
        "+ray_kwargs.ray_init.include_dashboard": False,
        "+ray_kwargs.ray_init.object_store_memory": 4 * 2**30,
        "hydra.run.dir": own / "hydra",
    }
    values |= {f"actor_rollout_ref.model.{name}": value for name, value in model(args, own).items()}
    values |= {f"actor_rollout_ref.actor.{name}": value for name, value in actor(args, length).items()}
    values |= {f"actor_rollout_ref.rollout.{name}": value for name, value in rollout(args, length).items()}
    values["+actor_rollout_ref.rollout.engine_kwargs.vllm.tokenizer"] = own / "tokenizer"
    return [f"{name}={value}" for name, value in values.items()]


def model(args: argparse.Namespace, own: Path) -> dict[str, Any]:
    return {
        "path": args.folder,
        "tokenizer_path": own / "tokenizer",
        "use_remove_padding": True,
        "use_liger": True,
        "enable_gradient_checkpointing": False,
    }


def actor(args: argparse.Namespace, length: int) -> dict[str, Any]:
    return {
        "strategy": "fsdp2",
        "ppo_mini_batch_size": args.prompts // args.updates,
        "use_dynamic_bsz": True,
        "ppo_max_token_len_per_gpu": args.micro_batch * length,
        "use_kl_loss": False,
        "entropy_coeff": 0,
        "clip_ratio_high": 0.28,
        "optim.lr": 1e-6,
        "fsdp_config.reshard_after_forward": False,
    }


def rollout(args: argparse.Namespace, length: int) -> dict[str, Any]:
    return {
        "name": "vllm",
        "n": args.group_size,
        "ignore_eos": True,
        "tensor_model_parallel_size": 1,
        "gpu_memory_utilization": args.share,
        "free_cache_engine": True,
        "enforce_eager": False,
        "max_model_len": length + 16,
        "max_num_seqs": 512,
        "max_num_batched_tokens": 16384,
        "calculate_log_probs": True,
    }


def prepare(args: argparse.Namespace, own: Path) -> None:
    """Its problems, and a tokenizer with an end token and a chat template, which adds nothing to them."""
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(Path(args.folder) / "tokenizer")
    tokenizer.eos_token, tokenizer.chat_template = "<unknown>", TEMPLATE
    tokenizer.add_tokens(["\n", "<|im_end|>"])  # verl asks Qwen's tokenizers for them, and never writes them here
    tokenizer.save_pretrained(own / "tokenizer")
    (own / "tokenizer" / "config.json").write_text('{"transformers_version": "5.0.0"}\n')
    rows = [
        {
            "data_source": "noise",
            "prompt": [{"role": "user", "content": text}],
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": index},
        }
        for index, text in enumerate(peer.words(args))
    ]
    Dataset.from_list(rows).to_parquet(own / "prompts.parquet")


def phases(line: str) -> dict[str, float] | None:
    """Seconds of a step by phase, from the line that verl's console logger writes of it; None of another line."""
    found = {name: float(value) for name, value in FIGURE.findall(line)}
    return found if LINE.search(line) and "step" in found else None


def run(args: argparse.Namespace, own: Path) -> int:
    """Writes what is known so far after every rollout, as it may be stopped before the last. Returns its exit code."""
    import torch

    from isentropic.callbacks.memory import GIB, Watch

    prepare(args, own)
    watch = None
    if torch.cuda.is_available():
        torch.cuda.init()  # before its peaks can be asked for
        watch = Watch(torch.device("cuda", 0), 0.02)
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *settings(args, own)]
    took: list[dict[str, float]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as it:
        for line in it.stdout or ():
            print(line, end="", flush=True)
            if found := phases(line):
                took.append(found)
                memory = {"used": watch.peaks(0.0)["used"] / GIB} if watch else {}
                peer.write(Path(args.out), [one["step"] for one in took], memory, "verl", {"phases": took})
    if watch:
        watch.end()
    return it.returncode


def main() -> None:
    os.environ |= {name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()}
    args = peer.arguments()
    with TemporaryDirectory() as own:
        code = run(args, Path(own))
    sys.exit(code)


if __name__ == "__main__":
    main()
