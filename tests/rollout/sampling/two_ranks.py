"""One rank: six rollouts at one go, then three, and the rest by other objects from what the first three saved.

Prints what was asked in each, by place, on all ranks, and what a checkpoint holds of the sampler's memory.
"""

import json
import sys
from dataclasses import fields, replace

import torch.distributed as dist
from fixtures.models import rollouts, scripted, sums

from isentropic.rollout.sampling.curriculum import Curriculum
from isentropic.rollout.sampling.hard_again import HardAgain
from isentropic.rollout.sampling.pass_rate import PassRate
from isentropic.rollout.sampling.weighted import Weighted
from isentropic.task.endless import Endless

STEPS = 6
MAKE = {
    "pass_rate": lambda: PassRate(unseen=0.5, floor=0.05, forget=0.5),
    "hard_again": lambda: HardAgain(share=0.5, below=0.6, times=2),
    "curriculum": lambda: Curriculum(column="sum", start=0.2, prompts=16),
    "weighted": lambda: Weighted(column="sum"),
}


class Columned(type(sums())):
    """Sums with a column of how large they are."""

    def problem(self, split, index):
        made = super().problem(split, index)
        return replace(made, columns={"sum": made.reference})

    def problems(self, split):
        return Endless(lambda index: self.problem(split, index))


def answers(value):
    """More of four are right the smaller the sum is; the number of right ones differs between ranks."""
    right = max(0, 4 - value // 4)
    return [[*str(value), "<eos>"] if place < right else ["<eos>"] for place in range(4)]


def stream(model, kind):
    task = Columned(**{one.name: getattr(sums(), one.name) for one in fields(sums())})
    data = rollouts(model, scripted(answers), task=task, sampling=MAKE[kind](), steps=STEPS, problems=24)
    return data.train_dataloader()


def play(made, upto):
    asked, learnt = [], []
    for batch in made:
        order = made.sampling.order(made.problems, made.position, made.prompts, made.seed)
        asked.append([order(turn) for turn in range(made.prompts)])
        learnt.append([batch.group.tolist(), batch.tokens.tolist()])
        if made.step == upto:
            break
    return asked, learnt


def main(model, kind):
    dist.init_process_group("gloo")
    whole = play(stream(model, kind), STEPS)
    first = stream(model, kind)
    begun = play(first, 3)
    saved = first.state_dict()
    rest = stream(model, kind)
    rest.load_state_dict(json.loads(json.dumps(saved)) if kind == "hard_again" else saved)
    ended = play(rest, STEPS)
    end = rest.state_dict()
    states = [len(one) for one in end.get("parts", {}).values()]
    same = [[*one, *other] for one, other in zip(begun, ended, strict=True)] == [*map(list, whole)]
    print(json.dumps({"asked": whole[0], "same": same, "states": states, "position": end["position"]}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
