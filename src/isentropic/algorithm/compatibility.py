"""Do the parts of an algorithm go together? Where not, one sentence: refused if it cannot be meant, else a warning."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from isentropic.algorithm.algorithm import Algorithm

SEAMS = "credit", "clipping", "penalty"  # whose parts can follow a controller


def check_parts(algorithm: Algorithm, reference: str | None, start: str, group_size: int) -> None:
    """Raises ValueError where one part lacks what it reads, or a costly or deciding one is read by none.

    `reference` is policy.reference, `start` policy.model.path, and `group_size` that of the rollout.
    """
    if group_size == 1 and algorithm.advantage.compares:
        raise ValueError(
            f"rollout.group_size=1 leaves {type(algorithm.advantage).__name__} no other answer to compare with, so all "
            "advantages would be 0; take at least 2, or an estimator without a group's baseline, as in "
            "algorithm=reinforce_plus_plus"
        )
    distances = [name for name, penalty in algorithm.penalty.items() if penalty.needs_reference]
    if distances and not reference:
        raise ValueError(
            f"algorithm.penalty.{distances[0]} measures the distance to a frozen policy, and policy.reference=null; "
            f"take policy.reference={start} for the one that training starts from"
        )
    if reference and not distances:
        raise ValueError(
            f"policy.reference={reference} would be loaded and read by no part; measure the distance to it with "
            "algorithm/penalty=[kl], or leave it null"
        )
    tying = [name for name, rule in algorithm.credit.items() if rule.adds_kl]
    anchors = [name for name, penalty in algorithm.penalty.items() if penalty.reads_kl_weight]
    if tying and not anchors:
        raise ValueError(
            f"algorithm.credit.{tying[0]} ties tokens to the old policy and no penalty charges them for moving; add "
            "algorithm/penalty=[anchor]"
        )
    if anchors and not tying:
        raise ValueError(
            f"algorithm.penalty.{anchors[0]} charges tokens that a credit rule has tied to the old policy, and none "
            "does; add algorithm/credit=[kl_cov] or leave it out"
        )


def check_rewards(algorithm: Algorithm, wrong: float | None) -> None:
    """Raises ValueError where answers are worth what a part cannot learn from.

    `wrong` is the reward of a wrong answer, None where it depends on more than the verdict.
    """
    signed = [name for name, rule in algorithm.credit.items() if rule.needs_negative_rewards]
    if wrong is not None and wrong >= 0 and signed:
        raise ValueError(
            f"algorithm.credit.{signed[0]} learns from wrong answers alone while entropy is low, by their reward, and "
            f"a wrong answer is worth {wrong:g}, which leaves no gradient at all; take rollout/curation=[outcome], "
            "where it is worth -1"
        )
    if wrong is not None and wrong < 0 and algorithm.advantage.needs_positive_mean:
        raise ValueError(
            f"{type(algorithm.advantage).__name__} divides by a group's mean reward and leaves out groups where it is "
            f"not above 0; a wrong answer is worth {wrong:g}, so hard problems would teach nothing; take 0 for it, as "
            "without outcome in rollout/curation"
        )


def check_sampler(algorithm: Algorithm, returns_logprobs: bool, one_step_off_policy: bool, is_remote: bool) -> None:
    """Raises ValueError where corrections of the sampler lack its log-probs, or old rollouts a correction.

    The flags are the sampler's, but for rollout.one_step_off_policy.
    """
    corrections = [name for name, rule in algorithm.credit.items() if rule.corrects_sampler]
    if corrections and not returns_logprobs:
        raise ValueError(
            f"algorithm.credit.{corrections[0]} reads the sampler's log-probs of every token, which are not asked for; "
            "take sampler.logprobs=all"
        )
    if one_step_off_policy and not is_remote:
        raise ValueError(
            "rollout.one_step_off_policy=true draws while the policy learns, which this sampler cannot do; take "
            "sampler=vllm_server"
        )
    if one_step_off_policy and not corrections:
        raise ValueError(
            "rollout.one_step_off_policy=true learns from a policy that is one update old, and no part corrects for "
            "it; take algorithm/credit=[truncated_importance], or rollout.one_step_off_policy=false"
        )


def check_early_logp(early_logp: str, returns_logprobs: bool, old_tokens: bool) -> None:
    """Raises ValueError where policy.early_logp=sampler lacks a sampler's log-probs, or these are of older policies.

    `old_tokens` says that rollouts are drawn before the last update, wholly or in part.
    """
    if early_logp == "sampler" and not returns_logprobs:
        raise ValueError(
            "policy.early_logp=sampler reads the sampler's log-probs of every token, which are not asked for; take "
            "sampler.logprobs=all"
        )
    if early_logp == "sampler" and old_tokens:
        raise ValueError(
            "policy.early_logp=sampler takes what the sampler told for the policy's own, and some tokens are of older "
            "ones; take policy.early_logp=policy, or rollout.partial=false and rollout.one_step_off_policy=false"
        )


def check_partial(algorithm: Algorithm, halts: bool, max_staleness: int, cannot_keep: bool = False) -> None:
    """Raises ValueError where a sampler cannot halt its answers, or no part corrects for the age of their tokens.

    `max_staleness` is that of partial rollouts; 0 where there are none. `cannot_keep` is whether a stale cache is asked
    for of a sampler that keeps none.
    """
    if not max_staleness:
        return
    if not halts:
        raise ValueError(
            "rollout.partial=true halts answers in the middle, which this sampler cannot do; take sampler=vllm with "
            "sampler.tensor_parallel_size=1, sampler=vllm_server or sampler=transformers"
        )
    if cannot_keep:
        raise ValueError(
            "rollout.stale_cache=true keeps keys and values in the engine while the policy learns, which this sampler "
            "does not; take sampler=vllm or vllm_gpu with sampler.sleep_level=0 and sampler.tensor_parallel_size=1"
        )
    if not any(rule.corrects_sampler for rule in algorithm.credit.values()):
        raise ValueError(
            f"rollout.partial=true learns from tokens of policies up to {max_staleness} updates old, and no part "
            "corrects for it; take algorithm/credit=[truncated_importance], or rollout.partial=false"
        )


def unused_controller(algorithm: Algorithm) -> str | None:
    """What to say of a controller whose drive nothing follows, which makes all its settings equal."""
    parts = *algorithm.credit.values(), algorithm.clipping, *algorithm.penalty.values()
    if not algorithm.control.changes or any(part.follows_drive for part in parts):
        return None
    return (
        f"No part follows the entropy controller ({type(algorithm.control).__name__}), so it changes nothing; those "
        f"that do are {', '.join(followers())}; take one of them, or algorithm/control=constant."
    )


def followers() -> Iterator[str]:
    """All parts that follow a drive, as they are chosen."""
    for seam in SEAMS:
        package = import_module(f"isentropic.algorithm.{seam}")
        for name in sorted(info.name for info in iter_modules(package.__path__)):
            module = import_module(f"{package.__name__}.{name}")
            parts = [
                part for _, part in inspect.getmembers(module, inspect.isclass) if part.__module__ == module.__name__
            ]
            if any(vars(part).get("follows_drive") for part in parts):
                yield f"algorithm/{seam}={name}" if seam == "clipping" else f"algorithm/{seam}=[{name}]"
