from dataclasses import replace

import pytest

from isentropic.algorithm.clipping import Clipping
from isentropic.algorithm.compatibility import (
    check_early_logp,
    check_partial,
    check_parts,
    check_rewards,
    check_sampler,
    followers,
    unused_controller,
)
from isentropic.algorithm.control.constant import Constant
from isentropic.algorithm.credit.kl_cov import KlCov
from isentropic.algorithm.credit.truncated_importance import TruncatedImportance
from isentropic.algorithm.penalty.anchor import Anchor
from isentropic.algorithm.penalty.entropy_bonus import EntropyBonus
from isentropic.algorithm.penalty.kl import Kl


@pytest.fixture
def algorithm(build):
    """STARE behind its gate."""
    return build("algorithm=stare")


def test_parts_that_go_together_are_let_through(algorithm):
    check_parts(algorithm, None, "start", 8)
    check_parts(replace(algorithm, penalty={"kl": Kl(0.1, "k3")}), "start", "start", 8)
    check_parts(replace(algorithm, credit={"kl_cov": KlCov(0.1, 1.0)}, penalty={"anchor": Anchor()}), None, "start", 8)


@pytest.mark.parametrize(
    "parts, reference, sentence",
    [
        (
            {"penalty": {"kl": Kl(0.1, "k3")}},
            None,
            r"algorithm\.penalty\.kl measures .*=null; take policy\.reference=start",
        ),
        ({}, "start", r"policy\.reference=start would be loaded and read by no part"),
        (
            {"credit": {"kl_cov": KlCov(0.1, 1.0)}},
            None,
            r"algorithm\.credit\.kl_cov ties .* add algorithm/penalty=\[anchor",
        ),
        (
            {"penalty": {"anchor": Anchor()}},
            None,
            r"algorithm\.penalty\.anchor charges .* add algorithm/credit=\[kl_cov",
        ),
    ],
)
def test_a_part_that_lacks_another_is_refused(algorithm, parts, reference, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_parts(replace(algorithm, **parts), reference, "start", 8)


@pytest.mark.parametrize("recipe", ["grpo", "rloo", "opo", "gtpo", "grpo_s", "stare", "reinforce_plus_plus_baseline"])
def test_a_group_of_one_is_refused_where_answers_are_compared(build, recipe):
    with pytest.raises(ValueError, match=r"^rollout\.group_size=1 leaves \w+ no other answer to compare with"):
        check_parts(build(f"algorithm={recipe}"), None, "start", 1)


@pytest.mark.parametrize("recipe", ["reinforce_plus_plus", "w_reinforce", "psr"])
def test_a_group_of_one_is_enough_without_a_group_s_baseline(build, recipe):
    check_parts(build(f"algorithm={recipe}"), None, "start", 1)


def test_a_controller_that_nothing_follows_is_told_with_what_would(algorithm):
    deaf = replace(algorithm, credit={})
    told = unused_controller(deaf)
    assert told and told.startswith("No part follows the entropy controller (Gate), so it changes nothing;")
    assert "algorithm/credit=[stare]" in told and "algorithm/penalty=[entropy_bonus]" in told
    assert "truncated_importance" not in told
    assert unused_controller(algorithm) is None
    assert unused_controller(replace(deaf, penalty={"entropy_bonus": EntropyBonus(0.1)})) is None
    assert unused_controller(replace(deaf, control=Constant(1.0, 0.0))) is None


def test_a_clipping_can_be_what_follows_the_controller(algorithm):
    class Following(Clipping):
        follows_drive = True

        def __call__(self, now, batch, drive): ...

    assert unused_controller(replace(algorithm, credit={}, clipping=Following())) is None


def test_parts_that_follow_are_found_without_a_list():
    assert {"algorithm/credit=[stare]", "algorithm/credit=[entro_pic]", "algorithm/penalty=[entropy_bonus]"} <= set(
        followers()
    )


def test_a_sampler_that_fits_is_let_through(algorithm):
    corrected = replace(algorithm, credit={"truncated_importance": TruncatedImportance(2.0)})
    check_sampler(algorithm, returns_logprobs=False, one_step_off_policy=False, is_remote=False)
    check_sampler(corrected, returns_logprobs=True, one_step_off_policy=True, is_remote=True)


@pytest.mark.parametrize(
    ("corrected", "returns_logprobs", "one_step_off_policy", "is_remote", "sentence"),
    [
        (True, False, False, False, r"credit\.truncated_importance reads .* take sampler\.logprobs=all"),
        (True, True, True, False, r"which this sampler cannot do; take sampler=vllm_server"),
        (False, True, True, True, r"no part corrects for it; take algorithm/credit=\[truncated_importance\]"),
    ],
)
def test_a_sampler_that_lacks_what_is_asked_of_it_is_refused(
    algorithm, corrected, returns_logprobs, one_step_off_policy, is_remote, sentence
):
    rules = {"truncated_importance": TruncatedImportance(2.0)} if corrected else {}
    with pytest.raises(ValueError, match=sentence):
        check_sampler(replace(algorithm, credit=rules), returns_logprobs, one_step_off_policy, is_remote)


def test_log_probs_that_stand_for_a_forward_are_all_told_and_of_this_policy():
    check_early_logp("policy", returns_logprobs=False, old_tokens=True)
    check_early_logp("sampler", returns_logprobs=True, old_tokens=False)
    with pytest.raises(ValueError, match=r"not asked for; take sampler\.logprobs=all"):
        check_early_logp("sampler", returns_logprobs=False, old_tokens=False)
    with pytest.raises(ValueError, match=r"some tokens are of older ones; take policy\.early_logp=policy, or"):
        check_early_logp("sampler", returns_logprobs=True, old_tokens=True)


def test_rewards_from_which_a_part_learns_are_let_through(build):
    check_rewards(build("algorithm=entrocraft"), -1.0)
    check_rewards(build("algorithm=entrocraft"), None)
    check_rewards(build("algorithm=max_rl"), 0.0)
    for wrong in (-1.0, 0.0, None):
        check_rewards(build("algorithm=stare"), wrong)


@pytest.mark.parametrize(
    "recipe, wrong, sentence",
    [
        ("entrocraft", 0.0, r"credit\.entrocraft .* worth 0, .* take rollout/curation=\[outcome\]"),
        ("max_rl", -1.0, r"MaxRl divides by a group's mean reward .* worth -1, so hard problems"),
    ],
)
def test_rewards_from_which_a_part_learns_nothing_are_refused(build, recipe, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_rewards(build(f"algorithm={recipe}"), wrong)


def test_partial_rollouts_need_a_sampler_that_halts_and_a_correction(build):
    plain, corrected = build("algorithm=grpo"), build("algorithm=tis")
    check_partial(plain, halts=False, max_staleness=0)
    check_partial(corrected, halts=True, max_staleness=2)
    check_partial(corrected, halts=True, max_staleness=0, cannot_keep=True)
    with pytest.raises(ValueError, match=r"stale_cache=true keeps keys .* with sampler\.sleep_level=0"):
        check_partial(corrected, halts=True, max_staleness=2, cannot_keep=True)
    with pytest.raises(ValueError, match="halts answers in the middle, which this sampler cannot do"):
        check_partial(corrected, halts=False, max_staleness=2)
    with pytest.raises(ValueError, match="policies up to 2 updates old, and no part corrects for it"):
        check_partial(plain, halts=True, max_staleness=2)
