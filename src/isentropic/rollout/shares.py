"""What is logged of a rollout: counts of its answers, and shares and means over all ranks."""

from collections import Counter
from collections.abc import Sequence

import torch

from isentropic.batch import RolloutBatch
from isentropic.distributed import average, world_size
from isentropic.reductions import group_mean
from isentropic.reward import Answer


def tally(asked: RolloutBatch) -> dict[str, int]:
    """Answers by what their group teaches; all_right and all_wrong are the answers of groups without contrast."""
    right = group_mean(asked.correct.float(), asked.group)
    rows = {"asked_correct": asked.correct, "all_right": right == 1, "all_wrong": right == 0}
    counts = {name: int(flags.sum()) for name, flags in rows.items()}
    return counts | {"asked": len(right), "tokens": int(asked.mask.sum())}


def shares(seen: Counter[str], filled: float) -> dict[str, float]:
    """Over all ranks, of all answers before curation; how much of the rollout was kept, and tokens written for it."""
    names = ("asked_correct", "all_right", "all_wrong", "unparseable", "unsimplified", "timeout", "crash", "reflection")
    counts = [filled, seen["tokens"], seen["asked"], *(seen[n] for n in names)]
    filled, tokens, asked, *rest = average(torch.tensor(counts, dtype=torch.float64)).tolist()
    found = {f"rollout/{n}": mean / asked for n, mean in zip(names, rest, strict=True)}
    return found | {"rollout/filled": filled, "rollout/tokens": tokens * world_size()}


def tally_of_turns(answers: Sequence[Answer]) -> dict[str, float]:
    """Sums over answers of an environment; nothing for others."""
    played = [answer.played for answer in answers if answer.played]
    return {
        "episodes": len(played),
        "turns": sum(len(one.texts) for one in played),
        "calls": sum(one.calls for one in played),
        "calls_failed": sum(one.failed for one in played),
        "void": sum(one.void for one in played),
        "observed": sum(one.observed for one in played),
        "tool_seconds": sum(one.seconds for one in played),
    }


def shares_of_turns(seen: Counter[str]) -> dict[str, float]:
    """Over all ranks: means per answer, of failed calls the share of all calls, and totals of what was read and ran."""
    names = ("episodes", "calls_failed", "tool_seconds", "calls", "observed", "turns", "void", "budget")
    sums = average(torch.tensor([seen[name] for name in names], dtype=torch.float64)).tolist()
    episodes, failed, seconds, calls, observed, *_ = sums
    found = {f"rollout/{name}": value / episodes for name, value in zip(names[3:], sums[3:], strict=True)}
    totals = {"observed_tokens": observed * world_size(), "tool_seconds": seconds * world_size()}
    return (
        found
        | {"rollout/calls_failed": failed / calls if calls else 0.0}
        | {f"throughput/{name}": value for name, value in totals.items()}
    )


def charges(seen: Counter[str], names: Sequence[str]) -> dict[str, float]:
    """Over all ranks, what each of these curators took off a reward, as a mean over the answers that came to it."""
    counts = [seen[f"{part}/{name}"] for name in names for part in ("charged", "charges")]
    found = average(torch.tensor(counts, dtype=torch.float64)).tolist()
    sums = zip(names, found[::2], found[1::2], strict=True)
    return {f"curation/{name}": taken / number if number else 0.0 for name, taken, number in sums}


def since(before: tuple[int, int] | None, now: tuple[int, int] | None) -> tuple[int, int] | None:
    """Of two counts of an engine what was added between two times; None where it does not count."""
    return None if before is None or now is None else (now[0] - before[0], now[1] - before[1])


def cached_share(read: tuple[int, int] | None) -> dict[str, float]:
    """Over all ranks; nothing where their engines do not say."""
    tokens, cached = average(torch.tensor(read or (0, 0), dtype=torch.float64)).tolist()
    return {"sampler/cached_share": cached / tokens} if tokens else {}


def idle_share(slots: tuple[int, int] | None) -> dict[str, float]:
    """Over all ranks, of the engines' places for a sequence in all steps; nothing where they do not say."""
    places, idle = average(torch.tensor(slots or (0, 0), dtype=torch.float64)).tolist()
    return {"sampler/idle_share": idle / places} if places else {}


def means_of_reasoning(seen: Counter[str]) -> dict[str, float]:
    """Over all ranks, of the answers with a block of reasoning; nothing where there are none."""
    names = ("reasoned", "reasoning_tokens", "answer_tokens", "unclosed")
    number, *sums = average(torch.tensor([seen[name] for name in names], dtype=torch.float64)).tolist()
    return {f"rollout/{name}": value / number for name, value in zip(names[1:], sums, strict=True)} if number else {}
