from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from transformers import AutoModelForCausalLM, AutoTokenizer

from isentropic.commands import pretrain
from isentropic.commands.pretrain import IGNORED, Pretraining, batch_of, character_tokenizer
from isentropic.task import Problem

CONFIGS = str(Path(__file__).parents[2] / "configs")
ALPHABET = "0123456789+-*=;,>:"


def pretraining(out: Path, *overrides: str) -> Pretraining:
    with initialize_config_dir(CONFIGS, version_base="1.3"):
        return instantiate(compose("pretrain", ["steps=3", "batch=4", "warmup=1", f"out={out}", *overrides]))


def test_equal_seeds_give_equal_weights_and_others_do_not(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        pretraining(tmp_path / name, f"seed={seed}").run()
    a, b, c = (AutoModelForCausalLM.from_pretrained(tmp_path / name).state_dict() for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["lm_head.weight"], c["lm_head.weight"])


def test_the_loss_falls_and_the_folder_has_what_an_engine_reads(tmp_path):
    loss = pretraining(tmp_path, "steps=15", "batch=16").run()
    assert loss < 2.6  # ln(24) = 3.18 before training
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    policy, tokenizer = AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert policy.generation_config.eos_token_id == policy.config.eos_token_id == tokenizer.eos_token_id == 1
    assert policy.generation_config.pad_token_id == policy.config.pad_token_id == tokenizer.pad_token_id == 0
    assert tokenizer.decode(tokenizer("3,8>24:")["input_ids"]) == "3,8>24:"


def test_learning_rates_warm_up_and_fall_to_the_last():
    shares = [
        pretraining(Path("unused"), "steps=150", "warmup=50", "last_lr=0.05").share(i) for i in (0, 49, 50, 100, 150)
    ]
    assert shares == pytest.approx([0.02, 1, 1, 0.525, 0.05])


def test_labels_are_the_answer_and_its_end_only():
    tokenizer = character_tokenizer(ALPHABET, 24, 64)
    tokens, labels = batch_of([(Problem("1,2>3:", None), "1+2=3"), (Problem("7,5>2:", None), "7-5=2")], tokenizer)
    assert tokenizer.decode(tokens[0]) == "1,2>3:1+2=3<eos>"
    assert (labels[:, :6] == IGNORED).all()
    assert torch.equal(labels[:, 6:], tokens[:, 6:])
    tokens, labels = batch_of([(Problem("1,2>3:", None), "1+2=3"), (Problem("9>9:", None), "9")], tokenizer)
    assert tokenizer.decode(labels[1][labels[1] != IGNORED]) == "9<eos>"
    assert (tokens[1, 6:] == tokenizer.pad_token_id).all()


def test_characters_map_to_fixed_ids_and_unknown_ones_stay_visible():
    tokenizer = character_tokenizer(ALPHABET, 24, 64)
    assert len(tokenizer) == 24
    assert tokenizer(ALPHABET)["input_ids"] == list(range(2, 20))
    assert tokenizer("1x\n")["input_ids"] == [3, 20, 20]
    assert tokenizer.decode([3, 20, 4, 1, 0], skip_special_tokens=True) == "1<unk>2"


def test_an_alphabet_too_large_for_the_vocabulary_is_refused():
    with pytest.raises(ValueError, match=r"model\.vocab_size=20 .* at least 21"):
        character_tokenizer(ALPHABET, 20, 64)


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_text("precious")
    with pytest.raises(Exception, match="exists already"):
        pretraining(tmp_path)


def test_no_steps_are_refused(tmp_path):
    with pytest.raises(Exception, match="steps=0"):
        pretraining(tmp_path, "steps=0")


def test_a_mix_of_answers_that_ask_for_results_needs_the_sign_in_the_alphabet(tmp_path):
    with pytest.raises(InstantiationException, match=r"asked=0.5 writes \?, which alphabet=.* does not have"):
        pretraining(tmp_path, "asked=0.5")
    with pytest.raises(InstantiationException, match=r"asked=2 is no share"):
        pretraining(tmp_path, "asked=2")
    made = pretraining(tmp_path, "task=calculator", "task.optional=true", "asked=0.5", f"alphabet='{ALPHABET}?'")
    answers = [made.worked(index) for index in range(200)]
    assert all(made.task.verify([problem], [answer])[0].correct for problem, answer in answers)
    assert 0.4 < sum(answer.count("?") for _, answer in answers) / sum(answer.count("=") for _, answer in answers) < 0.6
    made.run()
    assert AutoTokenizer.from_pretrained(tmp_path).encode("=?") == [15, 20]


def test_the_command_finds_its_config_in_the_package(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pretrain", "--cfg", "job", "steps=7"])
    pretrain.main()
    assert "steps: 7" in capsys.readouterr().out
