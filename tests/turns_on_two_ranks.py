"""One rank of two whose episodes end after 1 and after 6 turns; run by test_turns_on_engines.py.

sampler/vllm/two_ranks.py plays the same.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, AutoTokenizer

from isentropic.rollout.generate import RolloutGenerator
from isentropic.rollout.prompts import PromptEncoder
from isentropic.rollout.stream import EvaluationStream
from isentropic.rollout.turns import Turns
from isentropic.sampler import Decoding, Sampler
from isentropic.sampler.hf import TransformersSampler
from isentropic.task import Problem, Verdict
from isentropic.task.environment import Environment, Reply

TURNS = (1, 6, 1, 6)  # of the problems, which ranks take in turn


@dataclass
class Countdown:
    left: int

    def step(self, text: str) -> Reply:
        self.left -= 1
        return Reply(f"{self.left};") if self.left else Reply("", Verdict(float(len(text)), True, "right"))

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Uneven(Environment):
    """Its episodes have as many turns as the problem says."""

    def problems(self, split):
        return [Problem(f"{place}+{turns}=", turns) for place, turns in enumerate(TURNS)]

    def begin(self, problem, seed):
        return Countdown(problem.reference)

    def verify(self, problems, texts):
        return [Verdict(0.0, False, "wrong") for _ in texts]


def budgets(**settings):
    wide = {"turns": 8, "turn_tokens": 2, "observation_tokens": 8, "observed_tokens": None, "calls": None}
    wide |= {"tool_seconds": None, "seconds": 300.0, "cut": True, "role": "tool", "thinking": "keep"}
    return Turns(**(wide | {"shared_world": False, "workers": 2} | settings))


def played(sampler: Sampler, path: str):
    """The batches of this rank's problems, one problem after the other."""
    task, off = Uneven(), {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "stop": None}
    prompts = PromptEncoder(AutoTokenizer.from_pretrained(path), False, None, (), {})
    generator = RolloutGenerator(task, sampler, prompts, 0, budgets())
    problems = task.problems("test")
    return list(EvaluationStream(generator, problems, Decoding(max_tokens=16, **off), 2, range(len(TURNS)), 1))


def described(batch):
    rows = zip(batch.tokens.tolist(), batch.mask.tolist(), batch.turn.tolist(), strict=True)
    return {"rows": [list(row) for row in rows], "logp": batch.sampler_logp[batch.mask].tolist()}


if __name__ == "__main__":
    path, folder, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    sampler = TransformersSampler(path, "float32", "cpu", 64, 64)
    sampler.start()
    policy = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    sampler.update_weights(policy.state_dict().items())
    batches = played(sampler, path)
    dist.barrier()
    sampler.stop()
    turns = torch.tensor([int(batch.turn.max()) + 1 for batch in batches])
    dist.all_reduce(turns)  # ranks still meet, after rollouts of different lengths
    found = {"batches": [described(batch) for batch in batches], "turns": turns.tolist()}
    Path(folder, f"rank{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()
