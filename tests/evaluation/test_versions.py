import shutil
from pathlib import Path

from transformers import AutoTokenizer

from isentropic.evaluation.versions import (
    SAMPLE,
    checkpoint_hash,
    commit,
    data_hash,
    sampled_hash,
    tokenizer_hash,
    weights_hash,
)


def test_weights_are_told_apart_by_names_sizes_and_samples(tiny_model, tiny_model_untied, tmp_path):
    copy = shutil.copytree(tiny_model, tmp_path / "copy")
    assert weights_hash(Path(tiny_model)) == weights_hash(copy) != weights_hash(Path(tiny_model_untied))
    file = next(copy.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert weights_hash(Path(tiny_model)) != weights_hash(copy)


def test_of_a_large_file_start_middle_and_end_count(tmp_path):
    file, seen = tmp_path / "large", set()
    for place in (0, 5 * SAMPLE, 10 * SAMPLE - 1, None):
        data = bytearray(10 * SAMPLE)
        if place is not None:
            data[place] = 1
        file.write_bytes(data)
        seen.add(sampled_hash([file]))
    assert len(seen) == 4


def test_a_checkpoint_is_the_same_under_another_name(tmp_path):
    for name in ("last.ckpt", "rollout_3.ckpt"):
        (tmp_path / name).write_bytes(b"weights")
    assert checkpoint_hash(tmp_path / "last.ckpt") == checkpoint_hash(tmp_path / "rollout_3.ckpt")
    (tmp_path / "sharded").mkdir()
    (tmp_path / "sharded" / "meta.pt").write_bytes(b"weights")
    assert checkpoint_hash(tmp_path / "sharded") != checkpoint_hash(tmp_path / "last.ckpt")


def test_a_template_is_a_part_of_the_tokenizer(tiny_model):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    before = tokenizer_hash(tokenizer)
    assert before == tokenizer_hash(AutoTokenizer.from_pretrained(tiny_model))
    tokenizer.chat_template = "{{ messages[0].content }}"
    assert tokenizer_hash(tokenizer) != before


def test_data_is_a_file_or_a_folder_of_them(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}\n")
    alone, whole = data_hash(tmp_path / "a.jsonl"), data_hash(tmp_path)
    assert alone == data_hash(tmp_path / "a.jsonl") != whole
    (tmp_path / "a.jsonl").rename(tmp_path / "b.jsonl")
    assert data_hash(tmp_path / "b.jsonl") == alone and data_hash(tmp_path) != whole


def test_a_folder_without_git_has_no_commit(tmp_path):
    assert commit(tmp_path) is None
