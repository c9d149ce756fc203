from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from transformers import AutoModelForCausalLM, AutoTokenizer

from isentropic.task.countdown import Countdown

FOLDER = Path(str(files("isentropic"))) / "assets" / "countdown"
CONFIGS = str(Path(__file__).parents[2] / "configs")


@pytest.fixture(scope="module")
def policy():
    return AutoModelForCausalLM.from_pretrained(FOLDER).eval()


def test_the_folder_is_small_and_its_weights_are_those_of_the_readme():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2 * 1024**2
    assert sha256((FOLDER / "model.safetensors").read_bytes()).hexdigest() in (FOLDER / "README.md").read_text()


def test_the_model_is_the_one_that_pretraining_makes(policy):
    with initialize_config_dir(CONFIGS, version_base="1.3"):
        settings = compose("pretrain").model
    assert {key: getattr(policy.config, key) for key in settings} == dict(settings)
    assert policy.config.model_type == "qwen3"
    assert sum(weight.numel() for weight in policy.parameters()) == 301_824
    assert {weight.dtype for weight in policy.parameters()} == {torch.float32}


def test_it_solves_some_test_problems_and_leaves_room_to_learn(policy):
    task = Countdown(numbers=4, largest=9, limit=99, held_out=0.1, seed=0)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    problems = task.problems("test")[:128]
    prompts = tokenizer([problem.prompt for problem in problems], return_tensors="pt", padding=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        written = policy.generate(
            input_ids=prompts["input_ids"],
            attention_mask=prompts["attention_mask"],
            max_new_tokens=32,
            num_return_sequences=4,
        )
    answers = tokenizer.batch_decode(written[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    verdicts = task.verify([problem for problem in problems for _ in range(4)], answers)
    assert 0.08 < sum(verdict.correct for verdict in verdicts) / len(verdicts) < 0.3
    assert sum(verdict.status == "unparseable" for verdict in verdicts) / len(verdicts) < 0.1
