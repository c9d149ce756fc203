import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from isentropic.benchmarking.model import sizes, write
from isentropic.config.entry import CONFIGS
from isentropic.sampler.ends import ends_of
from isentropic.task.noise import Noise

TABLE = str(CONFIGS.parent / "assets/architectures.yaml")
TINY = {
    "model_type": "qwen2",
    "vocab_size": 300,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "tie_word_embeddings": True,
    "max_position_embeddings": 64,
}


def test_a_model_is_written_once_and_never_ends_an_answer(tmp_path):
    folder, entry = tmp_path / "deep" / "model", sizes("mine", {"mine": TINY}, TABLE)
    write(folder, entry)
    weights = (folder / "model.safetensors").read_bytes()
    write(folder, entry)
    assert (folder / "model.safetensors").read_bytes() == weights
    assert AutoModelForCausalLM.from_pretrained(folder).config.num_hidden_layers == 1
    assert ends_of(str(folder), None).ids == []


def test_each_word_of_a_prompt_is_one_token(tmp_path):
    write(tmp_path / "model", sizes("mine", {"mine": TINY}, TABLE))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model" / "tokenizer")
    for problem in Noise(words=12, vocabulary=298, seed=0).problems("train")[:20]:
        ids = tokenizer.encode(problem.prompt)
        assert len(ids) == 12 and min(ids) > 1
        assert tokenizer.decode(ids) == problem.prompt


def test_a_name_is_one_of_the_short_ones_or_of_the_table():
    assert sizes("1.5b", {"1.5b": "Qwen/Qwen2.5-1.5B"}, TABLE)["num_hidden_layers"] == 28
    assert sizes("Qwen/Qwen3-8B-Base", {}, TABLE)["model_type"] == "qwen3"
    with pytest.raises(ValueError, match=r"benchmark.model=2b is not known; known are 1.5b, Qwen/Qwen2.5-0.5B, "):
        sizes("2b", {"1.5b": "Qwen/Qwen2.5-1.5B"}, TABLE)


def test_a_folder_of_another_model_is_left_alone(tmp_path):
    write(tmp_path / "model", sizes("mine", {"mine": TINY}, TABLE))
    with pytest.raises(ValueError, match=r"holds a model with hidden_size=16, and 32 is asked for"):
        write(tmp_path / "model", sizes("mine", {"mine": TINY | {"hidden_size": 32}}, TABLE))
