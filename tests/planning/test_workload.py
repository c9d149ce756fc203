from dataclasses import replace
from pathlib import Path

import pytest

from isentropic.commands.plan import composed, planned
from isentropic.planning.architecture import read

SCRIPT = Path(__file__).with_name("planning_rank.py")


def work(*overrides):
    return planned(composed(*overrides)).work


def test_what_a_preset_asks_of_each_rank():
    stare = work("experiment=stare_qwen2_5_math_7b")
    assert (stare.ranks, stare.shards, stare.rows, stare.updates, stare.mini_batch) == (16, 16, 32, 1, 32)
    assert stare.prompts_asked == 2 * 4, "two rounds, as dynamic sampling keeps half"
    assert (stare.size, stare.checkpointing, stare.sharded_gradients, stare.logp_recomputations) == (2, "full", True, 0)
    assert stare.packed and stare.compiled and not stare.reuse_update_forward, "STARE reads the policy before it learns"
    assert (stare.engine.sleep_level, stare.engine.share, stare.engine.cache) == (2, 0.6, None)
    assert stare.evaluations == 2 + 4999 // 10
    stapo = work("experiment=stapo_qwen3_8b_base")
    assert (stapo.updates, stapo.logp_recomputations, stapo.prompts_asked) == (4, 3, 256 // 64)


def test_turns_are_planned_by_a_share_of_what_they_may_read():
    tool = work("experiment=stare_tool_qwen2_5_7b")
    assert tool.lengths.observed == round(0.4 * 7 * 256) and tool.engine.context == 12288
    assert work("experiment=stare_tool_qwen2_5_7b", "rollout.turns.turns=1").lengths.observed == 0
    assert work("experiment=stare_tool_qwen2_5_7b", "lengths.observed=50").lengths.observed == 50
    assert work("experiment=stare_qwen2_5_math_7b").lengths.observed == 0


def test_a_card_alone_shares_nothing():
    alone = work("algorithm=grpo", "policy.reference=${policy.model.path}")
    assert (alone.ranks, alone.shards, alone.size) == (1, 1, 4)
    assert alone.reuse_update_forward and alone.reference and alone.reference_weights and alone.no_grad_passes == 1


def test_adapters_are_planned_by_their_rank_and_the_base():
    assert work("policy/adapter=lora", "policy.adapter.rank=8").adapter.rank == 8


def test_the_base_of_adapters_is_a_reference_without_weights_of_its_own():
    start = "policy.reference=${policy.model.path}"
    base = work("algorithm=grpo", "policy/adapter=lora", start)
    assert base.reference and base.no_grad_passes == 1 and not base.reference_weights
    assert work("algorithm=grpo", "policy/adapter=lora", "policy.reference=another").reference_weights
    assert not work("algorithm=grpo", "policy/adapter=lora").reference_weights


def test_rows_go_together_as_the_policy_cuts_them(small):
    parts = small.work(micro_batch=3).micro_batches(4)
    assert parts == [[16, 16, 16], [16]]
    assert small.work(max_tokens_per_micro_batch=20).micro_batches(2) == [[16], [16]]
    packed = small.work(packed=True, micro_batch=None, max_tokens_per_micro_batch=31, max_tokens_no_grad=45)
    assert packed.micro_batches(4) == [[16, 16], [16, 16]]
    assert packed.micro_batches(3, learns=False) == [[16, 16, 16]]


def test_prompts_are_no_longer_than_the_context_leaves():
    assert work("experiment=quickstart").lengths.prompt == 64 - 32
    assert work("experiment=stare_qwen2_5_math_7b").lengths.prompt == 160


def test_answers_from_a_table_need_no_engine():
    assert work("sampler=transformers", "~sampler.max_model_len").engine is None


def test_ranks_that_cannot_share_are_refused():
    sentence = r"rollout\.batch_size / rollout\.group_size=64 is not a multiple of the 48 ranks"
    with pytest.raises(ValueError, match=sentence):
        work("experiment=stare_qwen2_5_math_7b", "trainer.num_nodes=6")


def test_the_first_rank_of_a_run_plans_without_the_others(forks, script, tmp_path):
    first, second = forks(SCRIPT, *(([tmp_path, rank], {}) for rank in range(2)), limit=120)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert float(first.stdout) == planned(composed(script(SCRIPT).PLAN)).duration.step


def test_a_prompt_goes_through_once_for_the_answers_of_its_group(small):
    """Two groups of four; what a line holds is right on average, wherever groups begin in it."""
    each = small.work(rows=8, group=4, packed=True, micro_batch=None, max_tokens_per_micro_batch=10_000)
    shared = replace(each, share_prompts=True)
    (part,), (whole,) = shared.micro_batches(8), each.micro_batches(8)
    assert part == whole and each.tokens(part) - shared.tokens(part) == round(7 * 3 / 4 * 6)
    assert each.answer_tokens(part) == shared.answer_tokens(part)
    short = replace(shared, max_tokens_per_micro_batch=40)
    assert [len(part) for part in short.micro_batches(8)] == [3, 2, 3]
    assert sum(map(short.tokens, short.micro_batches(8))) < sum(map(each.tokens, each.micro_batches(8)))


CONFIG = {
    "model_type": "qwen2", "vocab_size": 24, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 4096,
}  # fmt: skip


def read_as(**config):
    """What is planned of a run that would pack and share prompts, on a model of this config."""
    settings = ["policy.model.packing=true", "policy.model.share_prompts=true"]
    settings += ["policy.optimization.max_tokens_per_micro_batch=2000", "policy.optimization.max_tokens_no_grad=2000"]
    return planned(composed(*settings), read("a folder", CONFIG | config))


@pytest.mark.parametrize(
    "config, packed, shared, said",
    [
        ({}, True, True, None),
        ({"use_sliding_window": False, "sliding_window": 8}, True, True, None),
        ({"use_sliding_window": True, "sliding_window": 8}, True, False, "layers have a window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, True, False, "layers have a window"),
        ({"layer_types": ["full_attention", "linear_attention"]}, False, False, "of the kinds linear_attention"),
        ({"attn_logit_softcapping": 50.0}, False, False, "its attention caps its scores"),
    ],
)
def test_what_a_model_cannot_have_is_not_planned_and_said(config, packed, shared, said):
    plan = read_as(**config)
    assert (plan.work.packed, plan.work.share_prompts) == (packed, shared)
    told = [sentence for sentence in plan.advice if sentence.startswith("policy.model.")]
    assert len(told) == (said is not None) and all(said in sentence for sentence in told)


def test_padded_rows_take_more_time_than_packed_ones():
    packed, padded = read_as(), read_as(attn_logit_softcapping=50.0)
    assert padded.duration.phases["update"] > packed.duration.phases["update"]


def test_what_is_observed_between_turns_widens_rows_and_not_what_the_head_sees(small):
    plain, turns = small.work(), small.work(lengths=replace(small.work().lengths, observed=7))
    for before, after in zip(plain.micro_batches(4), turns.micro_batches(4), strict=True):
        assert [width + 7 for width in before] == after
        assert plain.answer_tokens(before) == turns.answer_tokens(after)
