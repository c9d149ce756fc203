import json
from pathlib import Path

import pytest
import torch
import yaml

from isentropic.planning.architecture import architecture

ASSETS = Path(__file__).parents[2] / "src" / "isentropic" / "assets"
TABLE = str(ASSETS / "architectures.yaml")
KNOWN = yaml.safe_load(Path(TABLE).read_text())


def test_the_small_model_by_hand(small):
    model = small.model
    attention, mlp = 10 * 20 + 2 * 10 * 10 + 20 * 10, 3 * 10 * 20
    assert (model.queries, model.keys, model.products) == (20, 10, attention + mlp)
    assert model.layer == attention + mlp + 2 * 10
    assert model.parameters == 2 * model.layer + 2 * 1000 * 10 + 10
    assert model.cache(2) == 2 * 2 * 10 * 2  # keys and values, layers, width, bytes
    assert model.attention(3) == 2 * 2 * 20 * 9


@pytest.mark.parametrize("name", KNOWN)
def test_known_models_have_the_parameters_and_tensors_that_transformers_gives_them(name):
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(**KNOWN[name])
    with torch.device("meta"):
        lm = AutoModelForCausalLM.from_config(config)
    model = architecture(name, TABLE)
    assert model.parameters == sum(parameter.numel() for parameter in lm.parameters())
    assert model.tensors == len(lm.state_dict())
    assert model.context == config.max_position_embeddings


def test_a_folder_is_read_from_its_config():
    weights = (ASSETS / "countdown" / "model.safetensors").stat().st_size
    model = architecture(str(ASSETS / "countdown"), TABLE)
    assert model.family == "qwen3"
    assert 0 < weights - 4 * model.parameters < 10_000, "fp32 weights and a header"


def test_models_that_cannot_be_planned_are_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    with pytest.raises(
        ValueError, match=r"is a model of type mamba, which cannot be planned; only llama, qwen2, qwen3"
    ):
        architecture(str(tmp_path), TABLE)
    with pytest.raises(ValueError, match=r"policy\.model\.path=nobody/nothing is neither .* known are Qwen/"):
        architecture("nobody/nothing", TABLE)
