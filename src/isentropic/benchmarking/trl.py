"""The peer: TRL's GRPOTrainer with vLLM in its process, on the same model folder and sizes.

python -m isentropic.benchmarking.trl --folder MODEL --prompts 64 --group-size 8 ... --out peer.json
"""

import argparse
import itertools
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from isentropic.benchmarking import peer

REQUIREMENT = "trl==1.16.0"
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29511",
}


def prepared(folder: Path, own: Path) -> Any:
    """The model in `own`, with a tokenizer that has an end token, as the peer needs one. Returns the tokenizer."""
    from transformers import AutoTokenizer

    for file in folder.iterdir():
        if file.is_file():
            (own / file.name).symlink_to(file.resolve())
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    tokenizer.eos_token = "<unknown>"
    tokenizer.save_pretrained(own)
    return tokenizer


def settings(args: argparse.Namespace, output: str) -> Any:
    """Its defaults where they do not change what is compared."""
    from trl import GRPOConfig  # pyright: ignore[reportMissingImports]

    rows = args.prompts * args.group_size
    return GRPOConfig(
        output_dir=output, max_steps=args.steps * args.updates, per_device_train_batch_size=args.micro_batch,
        gradient_accumulation_steps=rows // args.micro_batch // args.updates,
        steps_per_generation=rows // args.micro_batch, num_generations=args.group_size,
        max_completion_length=args.response_tokens, temperature=1.0, beta=0.0, loss_type="dapo", epsilon=0.2,
        epsilon_high=0.28, learning_rate=1e-6, bf16=True, gradient_checkpointing=True, logging_steps=1, report_to=[],
        save_strategy="no", use_vllm=True, vllm_mode="colocate", vllm_gpu_memory_utilization=args.share,
        vllm_enable_sleep_mode=True, vllm_max_model_length=args.prompt_tokens + args.response_tokens + 16,
        model_init_kwargs={"dtype": "bfloat16"}, generation_kwargs={"ignore_eos": True}, optim="adamw_torch_fused",
    )  # fmt: skip


def run(args: argparse.Namespace, own: Path) -> None:
    """Writes what is known so far after every rollout, as it may be stopped before the last."""
    import torch
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from transformers import TrainerCallback
    from trl import GRPOTrainer  # pyright: ignore[reportMissingImports]

    from isentropic.callbacks.memory import GIB, Watch

    class Clock(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.watch, self.marks = Watch(torch.device("cuda", 0), 0.02), [time.time()]

        def on_step_end(self, *_: Any, **__: Any) -> None:
            torch.cuda.synchronize()
            self.marks.append(time.time())
            print(f"peer: optimizer step {len(self.marks) - 1}, {self.marks[-1] - self.marks[-2]:.1f} s", flush=True)
            peaks = {name: size / GIB for name, size in self.watch.peaks(0.0).items()}
            marks = self.marks[:: args.updates]
            peer.write(Path(args.out), [later - earlier for earlier, later in itertools.pairwise(marks)], peaks, "trl")

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.watch.end()

    GRPOTrainer(
        model=str(own), reward_funcs=lambda completions, **_: [float(len(c) % 2) for c in completions],
        args=settings(args, str(own / "output")), train_dataset=Dataset.from_dict({"prompt": peer.words(args)}),
        processing_class=prepared(Path(args.folder), own), callbacks=[Clock()],
    ).train()  # fmt: skip


def main() -> None:
    os.environ |= {name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()}
    args = peer.arguments()
    with TemporaryDirectory() as own:
        run(args, Path(own))


if __name__ == "__main__":
    main()
