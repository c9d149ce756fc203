import pytest

from isentropic.plan import composed, planned


def work(*overrides):
    return planned(composed(*overrides)).work


def test_what_a_preset_asks_of_each_rank():
    stare = work("experiment=stare_qwen2_5_math_7b")
    assert (stare.ranks, stare.shards, stare.rows, stare.updates, stare.mini) == (16, 16, 32, 1, 32)
    assert stare.prompts_asked == 2 * 4, "two rounds, as dynamic sampling keeps half"
    assert (stare.size, stare.checkpointing, stare.sharded_gradients, stare.rereads) == (2, True, True, 0)
    assert (stare.engine.sleeps, stare.engine.share, stare.engine.cache) == (True, 0.6, None)
    assert stare.evaluations == 2 + 4999 // 10
    stapo = work("experiment=stapo_qwen3_8b_base")
    assert (stapo.updates, stapo.rereads, stapo.prompts_asked) == (4, 3, 256 // 64)


def test_a_card_alone_shares_nothing_and_an_entropy_bonus_costs_a_gradient():
    alone = work(
        "algorithm=entropy_bonus", "policy.reference=${policy.model.path}", "algorithm/penalty=[entropy_bonus]"
    )
    assert (alone.ranks, alone.shards, alone.size) == (1, 1, 4)
    assert alone.entropy_gradient and alone.reference


def test_rows_go_together_as_the_policy_cuts_them(small):
    parts = small.work(micro_batch=3).parts(4)
    assert parts == [[16, 16, 16], [16]]
    assert small.work(micro_tokens=20).parts(2) == [[16], [16]]


def test_prompts_are_no_longer_than_the_context_leaves():
    assert work("experiment=quickstart").lengths.prompt == 64 - 32
    assert work("experiment=stare_qwen2_5_math_7b").lengths.prompt == 160


def test_answers_from_a_table_need_no_engine():
    assert work("sampler=scripted").engine is None


def test_ranks_that_cannot_share_are_refused():
    with pytest.raises(ValueError, match=r"rollout\.size / rollout\.group=64 is not a multiple of the 48 ranks"):
        work("experiment=stare_qwen2_5_math_7b", "trainer.num_nodes=6")
