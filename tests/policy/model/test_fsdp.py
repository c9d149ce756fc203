"""Two ranks that share a model, against one that has it whole."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

SCRIPT = Path(__file__).with_name("two_ranks.py")


@pytest.fixture(scope="session")
def two_ranks(script):
    return script(SCRIPT)


@pytest.fixture(scope="session")
def odd(tmp_path_factory):
    """An untied model of a vocabulary and a width that two ranks cannot halve, saved in bf16 and in several files."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("odd")
    config = Qwen2Config(
        vocab_size=25, hidden_size=12, intermediate_size=31, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=False, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(1)
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder, max_shard_size="2KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    return str(folder)


@pytest.fixture(scope="session")
def scaled(tmp_path_factory):
    """A model that scales its logits, so that its own head is asked."""
    from transformers import CohereConfig, CohereForCausalLM

    folder = tmp_path_factory.mktemp("scaled")
    config = CohereConfig(
        vocab_size=24, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, logit_scale=0.5, initializer_range=0.3, pad_token_id=0, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(2)
    CohereForCausalLM(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def models(tiny_model, odd, scaled):
    return [tiny_model, odd, scaled]


@pytest.fixture(scope="session")
def sharded(models, forks, tmp_path_factory):
    """What both ranks found, by model and by whether adapters learn."""
    folder = tmp_path_factory.mktemp("two_ranks")
    for rank in forks(SCRIPT, *(([folder, rank, *models], {}) for rank in range(2))):
        assert rank.returncode == 0, rank.stderr
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.fixture(scope="session")
def alone(two_ranks, models):
    return dict(two_ranks.cases(models, None, [0, 1, 2, 3]))


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


CASES = pytest.mark.parametrize("index, adapted", [(0, False), (0, True), (1, False), (1, True), (2, False), (2, True)])


@CASES
def test_each_rank_reads_its_part_and_together_they_have_what_the_folder_holds(sharded, models, index, adapted):
    case = models[index], adapted
    folder = AutoModelForCausalLM.from_pretrained(models[index], dtype=torch.float32).state_dict()
    for rank in sharded:
        assert same(rank[case]["before"], folder)


@CASES
def test_shards_are_sent_as_the_whole_tensors_cast(sharded, models, index, adapted):
    case = models[index], adapted
    for when, dtype in (("before", "bf16"), ("after", "after_bf16")):
        whole = {name: value.to(torch.bfloat16) for name, value in sharded[0][case][when].items()}
        for rank in sharded:
            assert same(rank[case][dtype], whole)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_the_size_of_a_bucket_changes_nothing(sharded, models, index):
    for rank in sharded:
        assert same(rank[models[index], "buckets"], sharded[0][models[index], False]["bf16"])


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_gradient_asked_for_at_log_probs_does_not_begin_the_backward_pass(sharded, models, index):
    for rank in sharded:
        assert rank[models[index], "whole"][:3] == [True, True, False]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_what_a_reading_leaves_gathered_can_be_let_go(sharded, models, index):
    for rank in sharded:
        assert rank[models[index], "whole"][3:] == [True, False]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_weights_gathered_once_stay_whole_for_an_optimizer_step_and_change_nothing(sharded, models, index):
    for rank in sharded:
        usual, once = (rank[models[index], "gathered", way] for way in (False, True))
        assert same(once["after"], usual["after"]) and torch.equal(once["logp"], usual["logp"])
        within, after = [[True, True]] * 2, [[False, False]]
        assert once["whole"] == (within + after) * 2 + after
        assert usual["whole"] == after * 6 + [[False, True]]


@CASES
def test_two_ranks_learn_what_one_learns(sharded, alone, models, index, adapted):
    case = models[index], adapted
    whole = alone[case]
    assert set(whole["after"]) == set(sharded[0][case]["after"]) == set(whole["before"])
    for rank in sharded:
        torch.testing.assert_close(rank[case]["norms"], whole["norms"], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(rank[case]["logp"], whole["logp"], rtol=1e-4, atol=1e-4)
        for name, value in whole["after"].items():
            torch.testing.assert_close(rank[case]["after"][name], value, rtol=1e-4, atol=1e-4)
    moved = {name for name, value in whole["after"].items() if not torch.equal(value, whole["before"][name])}
    adapters = {
        name for name in whole["after"] if any(f"{part}.weight" in name for part in ("q_proj", "o_proj", "down_proj"))
    }
    assert moved == adapters if adapted else moved >= adapters
