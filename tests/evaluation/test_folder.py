import json

import pytest
import yaml
from transformers import AutoTokenizer

from isentropic.evaluation.folder import begin, differences, keep_versions

SETTINGS = {
    "seed": 0,
    "batch": 8,
    "sampler": {"dtype": "float32", "max_num_seqs": 4},
    "asked": {"aime24": {"count": 4, "decoding": {"temperature": 1.0}}},
}


def test_the_same_settings_go_on(tmp_path):
    begin(tmp_path, SETTINGS)
    begin(tmp_path, SETTINGS | {"batch": 16, "folder": "elsewhere"})
    begin(tmp_path, SETTINGS | {"sampler": {"dtype": "float32", "max_num_seqs": 64}})
    assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == SETTINGS


@pytest.mark.parametrize(
    "change, said",
    [
        ({"seed": 1}, "seed=1, and it was 0"),
        ({"sampler": {"dtype": "bfloat16", "max_num_seqs": 4}}, "sampler.dtype=bfloat16, and it was float32"),
        ({"asked": {"aime24": {"count": 8, "decoding": {"temperature": 1.0}}}}, "asked.aime24.count=8, and it was 4"),
        ({"asked": {}}, "asked.aime24.count=null, and it was 4; asked.aime24.decoding.temperature=null"),
    ],
)
def test_other_settings_are_refused_with_what_differs(tmp_path, change, said):
    begin(tmp_path, SETTINGS)
    with pytest.raises(ValueError) as refused:
        begin(tmp_path, SETTINGS | change)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == SETTINGS


def test_nothing_differs_from_itself():
    assert list(differences(SETTINGS, SETTINGS)) == []


def test_other_versions_are_said_and_the_first_are_kept(tmp_path, tiny_model):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    assert keep_versions(tmp_path, "abc", tokenizer, "float32", {"aime24": "1"}, tmp_path) == []
    first = json.loads((tmp_path / "versions.json").read_text())
    assert first["weights"] == "abc" and first["commit"] is None and "torch" in first["libraries"]
    assert keep_versions(tmp_path, "abc", tokenizer, "float32", {"aime24": "1"}, tmp_path) == []
    (line,) = keep_versions(tmp_path, "abc", tokenizer, "float32", {"aime24": "2"}, tmp_path)
    assert line == "going on with other versions: data.aime24=2, and it was 1"
    assert json.loads((tmp_path / "versions.json").read_text()) == first
