"""Models small enough to build in a test, and runs of the entry points that several tests look at."""

import contextlib
import fcntl
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import forkserver
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import hypothesis
import pytest
import torch
import yaml
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

ROOT = Path(__file__).parents[1]
# Files that take half a minute or more, the longest first.
SLOW = [
    "launching/test_sweep.py",
    "test_train.py",
    "sampler/vllm/test_server.py",
    "commands/test_preflight.py",
    "commands/test_tune.py",
    "test_add_a_method.py",
    "sampler/vllm/test_colocated.py",
    "test_notebooks.py",
    "policy/model/test_fused_logprobs.py",
    "algorithm/test_composition.py",
    "algorithm/test_ranks.py",
    "reporting/test_report.py",
    "task/test_equality.py",
]


# Whoever configures logging closes the handlers there are, and absl's closes its stream with it: in a test, pytest's.
with contextlib.suppress(ImportError):
    from absl import logging as absl_logging

    absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__

# how fast the machine is just then is no property of the code
hypothesis.settings.register_profile("any load", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any load")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, or one worker would end long after the other."""
    places = {ROOT / "tests" / name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: places.get(item.path, len(SLOW)))


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


class Sheet(dict):
    """For any sum, the answers that `answer` gives from its value, as ids of the tiny model."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def __missing__(self, prompt):
        text = "".join(SYMBOLS[token] for token in prompt)
        return [[SYMBOLS.index(symbol) for symbol in symbols] for symbols in self.answer(eval(text.rstrip("=")))]


def scripted(answer):
    from isentropic.sampler.scripted import ScriptedSampler

    return ScriptedSampler(Sheet(answer), eos=1)


def some_right(value):
    """Two of four, each of its own length; the last is cut off."""
    return [*str(value), "<eos>"], ["<eos>"], [*str(value), "+", "<eos>"], [*"+++"]


def sums(largest=9, seed=0):
    from isentropic.task.arithmetic import Arithmetic

    return Arithmetic(pattern=f"1..{largest}+1..{largest}", template="{question}=", marker="", held_out=0.2, seed=seed)


def decoding(**settings):
    from isentropic.sampler import Decoding

    off = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "max_tokens": 6, "stop": None}
    return Decoding(**(off | settings))


def rollouts(model, sampler, task=None, judged=3, temperature=1.0, **settings):
    """A data module: rollouts of four groups of four, three problems to be judged on."""
    from isentropic.rollout.datamodule import EvaluationSettings, RolloutDataModule

    sizes = {
        "steps": 3,
        "batch_size": 16,
        "group_size": 4,
        "max_tries": 3,
        "problems": None,
        "one_step_off_policy": False,
    }
    sizes |= {"seed": 0, "curation": {}}
    if "evaluation" not in settings:
        settings["evaluation"] = EvaluationSettings(
            split="test", problems=judged, count=2, batch=2, decoding=decoding()
        )
    defaults = sizes | {"tokenizer": model, "chat": False, "decoding": decoding(temperature=temperature)}
    return RolloutDataModule(**(defaults | {"task": task or sums(), "sampler": sampler} | settings))


def learner(model, size=16, mini_batch=16, temperature=1.0, lr=1e-2, reference=None):
    """GRPO over the tiny model."""
    from torchmetrics import MetricCollection

    from isentropic.algorithm.advantage.grpo import Grpo
    from isentropic.algorithm.aggregation.token_mean import TokenMean
    from isentropic.algorithm.algorithm import Algorithm
    from isentropic.algorithm.clipping.fixed import Fixed
    from isentropic.algorithm.control.constant import Constant
    from isentropic.algorithm.ratio.token import TokenRatio
    from isentropic.evaluation.avg_at_k import AvgAtK
    from isentropic.policy.model.language_model import ModelSettings
    from isentropic.policy.module import Optimization, PolicyModule

    algorithm = Algorithm(
        control=Constant(up=0.0, down=0.0), advantage=Grpo(divide_by_std=True), credit={}, ratio=TokenRatio(),
        clipping=Fixed(low=0.2, high=0.28, ceiling=10.0), penalty={}, aggregation=TokenMean(), scope="step",
    )  # fmt: skip
    optimization = Optimization(
        lr=lr, weight_decay=0.0, beta1=0.9, beta2=0.999, warmup_steps=0, max_grad_norm=1.0,
        mini_batch=mini_batch, micro_batch=4, max_tokens_per_micro_batch=None, max_tokens_no_grad=None,
        sharded_gradients=False, reshard_after_forward=False, balance=True,
    )  # fmt: skip
    return PolicyModule(
        algorithm, MetricCollection({"avg": AvgAtK(2, 100)}), ModelSettings(model, "float32", 64, False, "none", False),
        reference, optimization, batch_size=size, temperature=temperature, recompute_logp=True,
        skip_old_logp_forward=True, seed=0, adapter=None,
    )  # fmt: skip


def trainer_of(folder, callbacks, **settings):
    from lightning import Trainer
    from lightning.pytorch.callbacks import Checkpoint
    from lightning.pytorch.loggers import CSVLogger

    defaults = {"limit_val_batches": 0, "devices": 1, "logger": CSVLogger(folder, name="", version="")}
    defaults["enable_checkpointing"] = any(isinstance(callback, Checkpoint) for callback in callbacks)
    return Trainer(
        default_root_dir=folder, accelerator="cpu", max_epochs=1, log_every_n_steps=1, callbacks=callbacks,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        use_distributed_sampler=False, **(defaults | settings),
    )  # fmt: skip


@pytest.fixture
def parts(tiny_model):
    """The parts of a run in miniature, and what makes them."""
    return SimpleNamespace(
        model=tiny_model,
        symbols=SYMBOLS,
        scripted=scripted,
        some_right=some_right,
        sums=sums,
        decoding=decoding,
        rollouts=lambda sampler, **settings: rollouts(tiny_model, sampler, **settings),
        learner=lambda **settings: learner(tiny_model, **settings),
        trainer=trainer_of,
    )


# what launchers leave behind would make a test one rank of something
FOREIGN = {
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_PROCID",
    "HYDRA_FULL_ERROR",
}


def module(name: str) -> str:
    return f"isentropic.{name}" if name in ("train", "eval") else f"isentropic.commands.{name}"


SMALL = [
    "experiment=quickstart",
    "rollout.batch_size=32",
    "rollout.steps=2",
    "rollout.evaluation.problems=4",
    "policy.optimization.mini_batch=16",
    "policy.optimization.micro_batch=16",
    "callbacks.progress.seconds=0",
]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.Popen[str]]:
    """`python -m isentropic.<name>` with small settings, as from a shell."""

    def process(name: str, *arguments: str) -> subprocess.Popen[str]:
        clean = {key: value for key, value in os.environ.items() if key not in FOREIGN}
        settings = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", module(name), *SMALL, *arguments], env=clean | settings, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path_factory.mktemp("shell"),
        )  # fmt: skip

    return process


@pytest.fixture(scope="session")
def script() -> Callable[[Path], ModuleType]:
    """A file as a module, under its own name, though it lies in no package."""

    def load(path: Path) -> ModuleType:
        spec = spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


PRELOADED = [
    "lightning.pytorch", "torchmetrics", "transformers.models.qwen3.modeling_qwen3", "torch.distributed.fsdp",
    "beartype", "jaxtyping", "hydra.main", "omegaconf", "matplotlib.pyplot", "matplotlib.backends.backend_agg",
    "pytest", "hypothesis",
]  # fmt: skip
PROGRAM = """
import os, runpy, sys

os.environ.clear()
os.environ.update(variables)
for number, path in (1, out), (2, err):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
os.chdir(folder)
sys.path[:0] = variables.get("PYTHONPATH", "").split(os.pathsep)
sys.argv[:] = [program, *arguments]
if program.endswith(".py"):
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")
else:
    runpy.run_module(program, run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="session")
def forks(tmp_path_factory) -> Callable[..., list[subprocess.CompletedProcess[str]]]:
    """Programs that run beside each other, in forks of a process that has done no more than import what takes long.

    Of each, arguments and variables: a script or a module, as `python` would run it with `-m`, in a folder `where`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    launchers = (*FOREIGN, "SLURM_", "NCCL_", "GLOO_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(launchers)}
    clean |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with pytest.MonkeyPatch.context() as patch:
        for name in FOREIGN:
            patch.delenv(name, raising=False)
        for name in ("OMP_NUM_THREADS", "HF_HUB_OFFLINE"):  # read once, when torch and transformers are imported
            patch.setenv(name, "1")
        forkserver.ensure_running()

    def run(program: str | Path, *each: tuple[list[Any], dict[str, str]], limit: float = 300, where: Any = None):
        folder = tmp_path_factory.mktemp("forks")
        processes = []
        for i, (arguments, variables) in enumerate(each):
            known = {
                "program": str(program),
                "arguments": [str(one) for one in arguments],
                "folder": str(where or folder),
            }
            known |= {"variables": clean | variables, "out": str(folder / f"{i}.out"), "err": str(folder / f"{i}.err")}
            processes.append(context.Process(target=exec, args=(PROGRAM, known)))
            processes[-1].start()
        end = time.monotonic() + limit
        try:
            for process in processes:
                process.join(max(0.0, end - time.monotonic()))
        finally:
            for process in processes:
                process.kill()
                process.join()
        return [
            subprocess.CompletedProcess(
                [str(program), *arguments], process.exitcode,
                *((folder / f"{i}.{said}").read_text() for said in ("out", "err")),
            )
            for i, (process, (arguments, _)) in enumerate(zip(processes, each, strict=True))
        ]  # fmt: skip

    return run


@pytest.fixture(scope="session")
def world() -> Callable[[int], list[dict[str, str]]]:
    return a_world_of


@pytest.fixture(scope="session")
def ranked(forks) -> Callable[..., subprocess.CompletedProcess[str]]:
    """What `command` does, on ranks that were started from outside: what they said, one after the other."""

    def run(name: str, *arguments: str, ranks: int) -> subprocess.CompletedProcess[str]:
        worlds = a_world_of(ranks) if ranks > 1 else [{}]
        found = forks(module(name), *(([*SMALL, *arguments], world) for world in worlds))
        code = max((one.returncode for one in found), key=abs)
        return subprocess.CompletedProcess(
            found[0].args, code, "".join(one.stdout for one in found), "".join(one.stderr for one in found)
        )

    return run


def a_world_of(size: int) -> list[dict[str, str]]:
    """The variables by which ranks on this machine find each other, as torchrun sets them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.getsockname()[1]), "WORLD_SIZE": str(size)}
    return [meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank), "NODE_RANK": "0"} for rank in range(size)]


@pytest.fixture(scope="session")
def command(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = start(name, *arguments)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def quickstart(command, tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Folder and process of a short run of the quickstart, vLLM included where it is installed: one for all workers."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, said = shared / "quickstart", shared / "quickstart.json"
    with (shared / "quickstart.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            result = command("train", f"hydra.run.dir={folder}")
            said.write_text(json.dumps([result.args, result.returncode, result.stdout, result.stderr]))
    result = subprocess.CompletedProcess(*json.loads(said.read_text()))
    assert result.returncode == 0, result.stderr
    return folder, result


@pytest.fixture(scope="session")
def inside(tmp_path_factory) -> Callable[..., Path]:
    """The same entry points in this process, without their imports: overrides in, run folder out."""
    from isentropic.config.compose import compose, loader_of
    from isentropic.config.entry import CONFIGS

    def run(function: Callable[..., object], *overrides: str, folder: Path | None = None) -> Path:
        folder = folder or tmp_path_factory.mktemp("run")
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


@pytest.fixture(scope="session")
def short(inside) -> Path:
    """Folder of a run of one small rollout."""
    from isentropic.train import train

    return inside(train, "rollout.steps=1", "rollout.batch_size=16")


def write_run(folder, seed=0, steps=40, metrics=None, config=(), overrides=(), status=None, scores=None):
    """A run's folder by hand: `metrics` gives the values of what every rollout logs, `scores` those of evaluations."""
    folder.mkdir(parents=True, exist_ok=True)
    metrics = {"entropy/mean": [0.3 - 0.001 * i for i in range(steps)]} if metrics is None else metrics
    scores = {"eval/avg@8": [0.2, 0.4 + 0.01 * seed]} if scores is None else scores
    lines = [",".join([*metrics, *scores, "step"])]
    for step in range(steps + 1):
        rollout = [str(values[step - 1]) if 0 < step <= len(values) else "" for values in metrics.values()]
        judged = {0: 0, steps: -1}.get(step)
        evaluated = ["" if judged is None else str(values[judged]) for values in scores.values()]
        lines.append(",".join([*rollout, *evaluated, str(step)]))
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    settings = {"seed": seed, "task": {"seed": seed}, "rollout": {"steps": steps}, "paths": {"output": str(folder)}}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings | dict(config), sort_keys=False))
    (folder / ".hydra").mkdir(exist_ok=True)
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump([*overrides, f"seed={seed}"]))
    if status is not None:
        (folder / "status.json").write_text(json.dumps(status))
    return folder


@pytest.fixture(scope="session")
def a_run():
    return write_run


@pytest.fixture
def sweep(tmp_path):
    """Two methods by some seeds, in a folder: what a method changes is two keys, and its score is `base` plus noise."""

    def make(seeds=(0, 1, 2), bases=(("grpo", 0.4), ("stare", 0.6)), **settings):
        for method, base in bases:
            for seed in seeds:
                score = base + (0.013 * seed * seed) % 0.03
                write_run(
                    tmp_path / "sweep" / f"{method}_{seed}",
                    seed=seed,
                    config={"algorithm": {"control": {"_target_": method.title()}, "boost": len(method)}},
                    overrides=[f"algorithm={method}"],
                    scores={"eval/avg@8": [0.2, score], "eval/pass@16": [0.6, score + 0.2]},
                    **settings,
                )
        return tmp_path / "sweep"

    return make
