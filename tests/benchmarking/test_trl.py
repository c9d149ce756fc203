from importlib.metadata import PackageNotFoundError, version

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from isentropic.benchmarking.model import write
from isentropic.benchmarking.trl import missing, prepared

ENTRY = {"model_type": "llama", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
ENTRY |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64, "eos_token_id": None}


def test_the_peer_gets_the_same_model_and_an_end_token(tmp_path):
    write(tmp_path / "model", ENTRY)
    (tmp_path / "own").mkdir()
    tokenizer = prepared(tmp_path / "model", tmp_path / "own")
    assert tokenizer.eos_token_id == 1
    assert tokenizer.encode("w3 w17") == AutoTokenizer.from_pretrained(tmp_path / "model" / "tokenizer").encode(
        "w3 w17"
    )
    assert (tmp_path / "own" / "model.safetensors").resolve() == tmp_path / "model" / "model.safetensors"
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "own").config.vocab_size == 50


def test_without_the_peer_a_sentence_says_which_one_is_wanted():
    try:
        installed = version("trl")
    except PackageNotFoundError:
        assert missing() == "benchmark.vs=trl compares with trl 1.16, and here is none; install trl==1.16.0"
    else:
        if installed.startswith("1.16"):
            pytest.skip("the peer is there")
        assert f"here is {installed};" in str(missing())
