import json
from argparse import Namespace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from isentropic.benchmarking import peer, verl
from isentropic.benchmarking.model import save_tokenizer

ARGS = Namespace(
    folder="/models/1.5b", prompts=64, group_size=8, prompt_tokens=128, response_tokens=1024, updates=2, steps=2,
    micro_batch=16, vocabulary=500, share=0.35,
)  # fmt: skip

# of a run of 64 x 8 answers of 128 + 1,024 tokens, benchmarks/results/verl.json
LOG = Path(__file__).with_name("verl.log")
RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "verl.json"


def test_sizes_are_the_peers_own_settings():
    found = dict(setting.split("=", 1) for setting in verl.settings(ARGS, Path("/own")))
    assert found["actor_rollout_ref.model.path"] == "/models/1.5b"
    assert found["data.train_batch_size"] == "64" and found["actor_rollout_ref.rollout.n"] == "8"
    assert found["actor_rollout_ref.actor.ppo_mini_batch_size"] == "32"
    assert found["actor_rollout_ref.actor.ppo_max_token_len_per_gpu"] == str(16 * 1152)
    assert found["data.max_response_length"] == "1024" and found["actor_rollout_ref.rollout.ignore_eos"] == "True"
    assert found["trainer.total_training_steps"] == "2"
    assert found["actor_rollout_ref.rollout.gpu_memory_utilization"] == "0.35"


def test_its_rewards_are_found_in_the_file_that_it_is_told_of():
    settings = dict(setting.split("=", 1) for setting in verl.settings(ARGS, Path("/own")))
    spec = spec_from_file_location("rewards", settings["reward.custom_reward_function.path"])
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    rewards = [
        module.compute_score(data_source="noise", solution_str=text, ground_truth="", extra_info={"index": 0})
        for text in ("w1", "w10")
    ]
    assert rewards == [0.0, 1.0]


def test_seconds_of_its_steps_are_read_from_its_console():
    lines = LOG.read_text(encoding="utf-8").splitlines()
    found = [phases for line in lines if (phases := verl.phases(line))]
    assert len(found) == 2 and len(lines) > 2
    kept = json.loads(RESULT.read_text(encoding="utf-8"))
    assert found == kept["phases"][:2] and [phases["step"] for phases in found] == kept["seconds"][:2]
    for phases in found:
        assert sum(phases[name] for name in ("gen", "update_actor", "update_weights")) <= phases["step"]


def test_it_reads_problems_as_they_are(tmp_path):
    dataset = pytest.importorskip("datasets")
    save_tokenizer(tmp_path / "model" / "tokenizer", 600)
    args = Namespace(**vars(ARGS) | {"folder": str(tmp_path / "model"), "prompts": 2, "prompt_tokens": 4})
    verl.prepare(args, tmp_path)
    rows = dataset.Dataset.from_parquet(str(tmp_path / "prompts.parquet"), cache_dir=str(tmp_path / "cache"))
    assert [row["prompt"][0]["content"] for row in rows] == peer.words(args)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    assert tokenizer.eos_token_id == 1
    read = tokenizer.apply_chat_template(rows[0]["prompt"], add_generation_prompt=True, tokenize=False)
    assert read == rows[0]["prompt"][0]["content"] and len(tokenizer.encode(read)) == 4


def test_what_it_came_to_is_written_with_its_phases(tmp_path):
    out = tmp_path / "peer.json"
    peer.write(out, [30.0, 20.0], {"used": 50.0}, "verl", {"phases": [{"step": 30.0}, {"step": 20.0}]})
    own = {"seconds": {"median": {"step": 10.0}}, "memory": {}}
    found = peer.beside(own, out, 0, "verl")
    assert found["peer"]["name"] == "verl" and found["ratio"] == {"seconds": 0.5}
    assert json.loads(out.read_text())["versions"].keys() == {"verl", "torch", "transformers", "vllm"}


def test_without_it_a_sentence_says_which_one_is_wanted():
    try:
        found = version("verl")
    except PackageNotFoundError:
        assert (
            peer.missing(verl.REQUIREMENT)
            == "benchmark.vs=verl compares with verl 0.9, and here is none; install verl==0.9.1"
        )
    else:
        if found.startswith("0.9."):
            pytest.skip("the peer is there")
        assert f"here is {found};" in str(peer.missing(verl.REQUIREMENT))
