"""The conversion itself needs a file: ISENTROPIC_GGUF=PATH of a small Llama model with a chat template."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from isentropic.commands.convert_gguf import check, convert, main

FILE = os.environ.get("ISENTROPIC_GGUF", "")
needs_file = pytest.mark.skipif(not FILE, reason="ISENTROPIC_GGUF names no GGUF file to convert")
needs_gguf = pytest.mark.skipif(find_spec("gguf") is None, reason="the package gguf is not installed")


def gguf_like(folder: Path) -> Path:
    file = folder / "tiny.gguf"
    file.write_bytes(b"GGUF and then nothing")
    return file


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"absent\.gguf does not exist"):
        check(tmp_path / "absent.gguf", tmp_path / "out")


def test_a_file_of_another_format_is_refused(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"\x10\x00\x00\x00 and so on")
    with pytest.raises(ValueError, match="is no GGUF file"):
        check(file, tmp_path / "out")


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    with pytest.raises(ValueError, match="is not empty"):
        check(gguf_like(tmp_path), tmp_path)


@pytest.mark.skipif(find_spec("gguf") is not None, reason="the package gguf is installed")
def test_a_missing_package_is_named_with_the_command_that_brings_it(tmp_path):
    with pytest.raises(ValueError, match="pip install gguf"):
        check(gguf_like(tmp_path), tmp_path / "out")


def test_errors_reach_the_command_line_as_one_sentence_and_nothing_is_written(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "absent.gguf"), str(tmp_path / "out")])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_two_arguments_are_asked_for(capsys):
    with pytest.raises(SystemExit):
        main(["only.gguf"])
    assert "usage:" in capsys.readouterr().err


@needs_file
@needs_gguf
def test_the_folder_holds_the_weights_and_tokenizer_of_the_file(tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, folder = Path(FILE), tmp_path / "model"
    convert(source, folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    read = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    assert model.dtype == torch.bfloat16
    assert not hasattr(model.config, "quantization_config")
    for (name, value), (other, expected) in zip(model.state_dict().items(), read.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(value, expected.to(torch.bfloat16)), name
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "Q: 12 + 7 =\nA:"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.chat_template
