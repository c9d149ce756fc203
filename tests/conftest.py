"""Models small enough to build in a test, and runs of the entry points that several tests look at."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SYMBOLS = ["<pad>", "<eos>", *"0123456789+-*=;,>:"]


def save_tiny_model(folder: Path, tied: bool) -> str:
    """A random Qwen3 of two layers in fp32, and a tokenizer of one character per token: pad 0, eos 1, vocabulary 24."""
    config = Qwen3Config(
        vocab_size=24,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
        initializer_range=0.2,  # far from uniform, so that temperature and stale weights show
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Qwen3ForCausalLM(config).save_pretrained(folder)
    characters = Tokenizer(models.WordLevel({symbol: i for i, symbol in enumerate(SYMBOLS)}, unk_token="<pad>"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    characters.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> str:
    """Folder of a tiny model whose head is its embedding."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny_model"), tied=True)


@pytest.fixture(scope="session")
def tiny_model_untied(tmp_path_factory) -> str:
    return save_tiny_model(tmp_path_factory.mktemp("tiny_model_untied"), tied=False)


ROOT = Path(__file__).parents[1]
# what launchers leave behind would make a test one rank of something
FOREIGN = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "HYDRA_FULL_ERROR"}
SMALL = [
    "experiment=quickstart",
    "rollout.size=32",
    "rollout.steps=2",
    "rollout.judging.problems=4",
    "policy.optimization.mini_batch=16",
    "policy.optimization.micro_batch=16",
    "callbacks.progress.seconds=0",
]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.Popen[str]]:
    """`python -m isentropic.<name>` as from a shell, in a working folder that shows what is left there."""

    def process(name: str, *arguments: str) -> subprocess.Popen[str]:
        clean = {key: value for key, value in os.environ.items() if key not in FOREIGN}
        settings = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", f"isentropic.{name}", *arguments], env=clean | settings, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path_factory.mktemp("shell"),
        )  # fmt: skip

    return process


@pytest.fixture(scope="session")
def command(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = start(name, *arguments)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def quickstart(command, tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Folder and process of a short run of the quickstart, vLLM included where it is installed."""
    folder = tmp_path_factory.mktemp("quickstart") / "run"
    result = command("train", *SMALL, f"hydra.run.dir={folder}")
    assert result.returncode == 0, result.stderr
    return folder, result


@pytest.fixture(scope="session")
def inside(tmp_path_factory) -> Callable[..., Path]:
    """The same entry points in this process, without their imports: overrides in, run folder out."""
    from isentropic.compose import compose, loader_of
    from isentropic.entry import CONFIGS

    def run(function: Callable[..., object], *overrides: str) -> Path:
        folder = tmp_path_factory.mktemp("run")
        name = "eval" if "eval" in function.__name__ else "train"
        cfg = compose(loader_of(CONFIGS), name, [*SMALL, "sampler=transformers", *overrides, f"paths.output={folder}"])
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums depend on it in their last digits
        try:
            function.__wrapped__.__wrapped__(cfg)
        finally:
            torch.set_num_threads(threads)
        return folder

    return run
