"""What turns cost: the same tokens in one turn, in turns of all answers together, and in turns of each by itself.

    python benchmarks/turns.py --out benchmarks/results/turns.json
    python benchmarks/turns.py --model HuggingFaceTB/SmolLM2-135M-Instruct --dtype bfloat16 --graphs   # on a GPU

A small model of random weights that ends no turn writes on vLLM in this process; a world without work replies after
each turn, or after a sleep. Cases are run in turn, again and again; the ratio is of the seconds of a case to those of
one turn in the same round, which a loaded machine slows down alike, and cpu_ratio that of CPU seconds. Medians over
rounds.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

import isentropic
from isentropic.benchmarking.model import sizes as shape_of
from isentropic.benchmarking.model import write
from isentropic.rollout.framing import Framing
from isentropic.rollout.play import Player
from isentropic.rollout.prompts import PromptEncoder
from isentropic.rollout.turns import Turns
from isentropic.sampler import Decoding, Request, Sampler
from isentropic.sampler.vllm.colocated import VllmSampler
from isentropic.task import Problem, Verdict
from isentropic.task.environment import Environment, Reply

MODEL = {
    "model_type": "qwen3", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 2048,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0, "tie_word_embeddings": True,
}  # fmt: skip
SHAPES = str(Path(isentropic.__file__).parent / "assets" / "architectures.yaml")
PROMPT, OBSERVED = 16, "w1 w2 w3 w4"
UNEQUAL = (1, 5, 2, 4, 3)  # turns of the answers in turn, three on average


@dataclass
class Sleeping:
    """An episode of so many turns, each answered after some seconds."""

    turns: int
    seconds: float

    def step(self, text: str) -> Reply:
        time.sleep(self.seconds)
        self.turns -= 1
        return Reply(OBSERVED) if self.turns else Reply("", Verdict(1.0, True, "right"))

    def close(self) -> None: ...


@dataclass(frozen=True)
class World(Environment):
    """The reference of a problem is its number of turns."""

    seconds: float

    def problems(self, split: Any) -> list[Problem]:
        return []

    def begin(self, problem: Problem, seed: int) -> Sleeping:
        return Sleeping(problem.reference, self.seconds)


@dataclass(frozen=True)
class Sizes:
    answers: int
    turns: int
    tokens: int  # of a turn
    workers: int
    sleep: float

    def lengths(self, unequal: bool) -> list[int]:
        return [UNEQUAL[place % 5] if unequal else self.turns for place in range(self.answers)]

    def decoding(self) -> Decoding:
        most = max(self.turns, *UNEQUAL) * self.tokens
        return Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=most, stop=None)


def prompt(place: int) -> str:
    return " ".join(f"w{(7 * k + place) % 500}" for k in range(PROMPT))


def one_turn(sampler: Sampler, encoder: PromptEncoder, sizes: Sizes, unequal: bool) -> int:
    """As many tokens of each answer as all of its turns have."""
    requests = [
        Request(encoder.encode(Problem(prompt(place), turns)), place, turns * sizes.tokens)
        for place, turns in enumerate(sizes.lengths(unequal))
    ]
    return sum(len(one.tokens) for one in sampler.write(requests, sizes.decoding()))


def in_turns(sampler: Sampler, encoder: PromptEncoder, sizes: Sizes, unequal: bool, sleep: float) -> int:
    budgets = Turns(
        turns=8, turn_tokens=sizes.tokens, observation_tokens=16, observed_tokens=None, calls=None, tool_seconds=None,
        seconds=600.0, cut=True, role="tool", thinking="keep", shared_world=False, workers=sizes.workers,
    )  # fmt: skip
    player = Player(World(sleep), sampler, Framing(encoder, budgets), budgets, 0)
    rows = []
    for place, turns in enumerate(sizes.lengths(unequal)):
        problem = Problem(prompt(place), turns)
        rows.append(player.transcript(problem, encoder.encode(problem), place, "benchmark", place))
    player.play(rows, sizes.decoding())
    return sum(len(row.chosen) for row in rows)


def cases(sizes: Sizes) -> dict[str, tuple[str, bool, Callable[[Sampler, PromptEncoder], int]]]:
    """Each with what it is compared with, and whether its answers wait for each other."""
    found: dict[str, tuple[str, bool, Callable[[Sampler, PromptEncoder], int]]] = {}
    for unequal, kind in ((False, "equal"), (True, "unequal")):
        one = f"{kind}, one turn"
        found[one] = (one, False, partial(one_turn, sizes=sizes, unequal=unequal))
        for sleep in (0.0, sizes.sleep):
            play = partial(in_turns, sizes=sizes, unequal=unequal, sleep=sleep)
            said = f"{kind}, {sizes.turns} turns" + (f", tool {1000 * sleep:g} ms" if sleep else "")
            found[f"{said}, barrier"], found[said] = (one, True, play), (one, False, play)
    return found


def timed(
    sampler: Sampler, encoder: PromptEncoder, barrier: bool, case: Callable[..., int]
) -> tuple[float, float, int]:
    """Seconds, CPU seconds of this process, and tokens."""
    if barrier:
        sampler.converse = partial(Sampler.converse, sampler)
    begun, cpu = time.perf_counter(), time.process_time()
    tokens = case(sampler, encoder)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    vars(sampler).pop("converse", None)
    return seconds, cpu, tokens


def measured(
    sampler: Sampler, encoder: PromptEncoder, sizes: Sizes, rounds: int, only: str
) -> dict[str, dict[str, float]]:
    known = cases(sizes)
    bases = {base for name, (base, *_) in known.items() if name.startswith(only)}
    everything = {name: case for name, case in known.items() if name.startswith(only) or name in bases}
    seconds: dict[str, list[float]] = {name: [] for name in everything}
    cpu: dict[str, list[float]] = {name: [] for name in everything}
    tokens: dict[str, int] = {}
    for number in range(rounds + 1):
        for name, (_, barrier, case) in everything.items():
            spent, work, tokens[name] = timed(sampler, encoder, barrier, case)
            if number:  # the first warms up
                seconds[name].append(spent)
                cpu[name].append(work)
    found: dict[str, dict[str, float]] = {}
    for name, (base, *_) in everything.items():
        assert tokens[name] == tokens[base]
        ratios = [ours / theirs for ours, theirs in zip(seconds[name], seconds[base], strict=True)]
        work = [ours / theirs for ours, theirs in zip(cpu[name], cpu[base], strict=True)]
        found[name] = {
            "cpu_ratio": round(statistics.median(work), 2),
            "seconds": round(statistics.median(seconds[name]), 2),
            "ratio": round(statistics.median(ratios), 2),
            "least_ratio": round(min(ratios), 2),
            "tokens": tokens[name],
        }
    return found


def card() -> str | None:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def entry(given: argparse.Namespace) -> dict[str, Any]:
    """What stands in config.json of the model."""
    if given.model:
        return shape_of(given.model, {}, SHAPES)
    heads = given.hidden // 32
    shape = {"num_attention_heads": max(4, heads), "num_key_value_heads": max(2, heads // 2)}
    size = {"hidden_size": given.hidden, "num_hidden_layers": given.layers}
    return MODEL | shape | size | {"intermediate_size": given.intermediate}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=256)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=32, help="of a turn")
    parser.add_argument("--workers", type=int, default=8, help="threads in which episodes step")
    parser.add_argument("--sleep", type=float, default=0.02, help="seconds of a tool")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=64, help="size of the model, in 32 to a head")
    parser.add_argument("--intermediate", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--model", help="whose shape to take in place of these sizes, of assets/architectures.yaml")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--only", default="", help="cases whose names begin with this, and what they are compared with")
    parser.add_argument("--kv-cache-gib", type=float, default=0.5)
    parser.add_argument("--graphs", action="store_true", help="CUDA graphs, on a GPU")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    sizes = Sizes(given.answers, given.turns, given.tokens, given.workers, given.sleep)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write(path, entry(given))
        sampler = VllmSampler(
            str(path), dtype=given.dtype, load_format="auto", max_model_len=1024, max_num_seqs=given.answers,
            max_num_batched_tokens=8192, kv_cache_gib=given.kv_cache_gib, gpu_memory_utilization=0.1,
            enforce_eager=not given.graphs,
            sleep_level=0, tensor_parallel_size=1, logprobs="all", fast_decode=True,
        )  # fmt: skip
        sampler.start()
        try:
            encoder = PromptEncoder(AutoTokenizer.from_pretrained(path / "tokenizer"), False, None, (), {})
            found = measured(sampler, encoder, sizes, given.rounds, given.only)
        finally:
            sampler.stop()
    for name, row in found.items():
        print(f"{name:42}" + "  ".join(f"{key} {value:8}" for key, value in row.items()), flush=True)
    if given.out:
        machine = {
            "processor": platform.machine(),
            "card": card(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        told = vars(given) | {"out": str(given.out)}
        given.out.write_text(json.dumps({**machine, **told, "cases": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
