"""Weights that are not all there are refused, where transformers draws what it lacks at random."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertModel

from isentropic.pretrained import pretrained
from isentropic.sampler.hf import TransformersSampler


@pytest.fixture
def copied(tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path / "model")
    return tmp_path / "model"


def test_all_weights_are_those_of_the_folder(tiny_model, tiny_model_untied):
    for path in (tiny_model, tiny_model_untied):
        lm, kept = pretrained(path, dtype=torch.float32), load_file(f"{path}/model.safetensors")
        assert all(torch.equal(lm.state_dict()[name], value) for name, value in kept.items())


def test_weights_that_are_lacking_are_named(copied):
    file = copied / "model.safetensors"
    kept = load_file(file)
    first = "model.layers.0.mlp.down_proj.weight"
    save_file({name: value for name, value in kept.items() if "down_proj" not in name}, file, {"format": "pt"})
    with pytest.raises(ValueError, match=rf"lacks weights of Qwen3ForCausalLM, .*: {first} and 1 more"):
        TransformersSampler(str(copied), "float32", "cpu", 64, 8).start()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"the weights of .* cannot be read: "):
        pretrained(str(copied))


@pytest.mark.parametrize("kind, said", [(BertModel, "lacks weights of Bert"), (BertForMaskedLM, "is BertForMaskedLM")])
def test_a_model_that_only_reads_is_refused(tmp_path, kind, said):
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    kind(BertConfig(vocab_size=24, **size)).save_pretrained(tmp_path)
    assert json.loads((Path(tmp_path) / "config.json").read_text())["architectures"] == [kind.__name__]
    with pytest.raises(ValueError, match=said):
        pretrained(str(tmp_path))
