from importlib.metadata import PackageNotFoundError, version

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from isentropic.benchmarking.model import write as write_model
from isentropic.benchmarking.peer import beside, missing, write
from isentropic.benchmarking.trl import REQUIREMENT, prepared

ENTRY = {"model_type": "llama", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
ENTRY |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64, "eos_token_id": None}


def test_the_peer_gets_the_same_model_and_an_end_token(tmp_path):
    write_model(tmp_path / "model", ENTRY)
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
        assert missing(REQUIREMENT) == "benchmark.vs=trl compares with trl 1.16, and here is none; install trl==1.16.0"
    else:
        if installed.startswith("1.16"):
            pytest.skip("the peer is there")
        assert f"here is {installed};" in str(missing(REQUIREMENT))


def test_a_peer_that_is_stopped_is_compared_as_far_as_it_came(tmp_path):
    own = {"seconds": {"median": {"step": 20.0}}, "memory": {"update_used": 40.0, "rollout_used": 30.0}}
    out = tmp_path / "peer.json"
    assert beside(own, out, -15, "trl") == {"peer": {"name": "trl", "exit_code": -15}}
    memory = {"allocated": 44.0, "reserved": 46.0, "used": 50.0}
    write(out, [], memory, "trl")
    assert "ratio" not in beside(own, out, -15, "trl")
    write(out, [80.0], memory, "trl")
    assert beside(own, out, None, "trl")["ratio"] == {"seconds": 0.25, "used": 0.8}
    write(out, [80.0, 50.0], memory, "trl")
    found = beside(own, out, 0, "trl")
    assert found["peer"]["seconds"] == [80.0, 50.0] and found["peer"]["step"] == 50.0
    assert found["peer"]["exit_code"] == 0 and found["peer"]["versions"]["torch"]
    assert found["ratio"] == {"seconds": 0.4, "used": 0.8}
    assert beside(own | {"memory": {}}, out, 0, "trl")["ratio"] == {"seconds": 0.4}
    assert [file.name for file in tmp_path.iterdir()] == ["peer.json"]
