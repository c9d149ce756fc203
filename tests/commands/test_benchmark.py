"""The benchmark on a CPU, where all but the card's own figures is as on a GPU."""

import json

import pytest

from isentropic.benchmarking import peer, trl
from isentropic.benchmarking.figures import rows
from isentropic.benchmarking.table import text
from isentropic.commands.benchmark import compared, ended, measured, peer_arguments, run, with_flag
from isentropic.config.build import BadInput
from isentropic.config.compose import compose, loader_of
from isentropic.config.entry import CONFIGS

SMALL = (
    "trainer=cpu", "policy.model.compile=false",
    "benchmark.model=tiny", "benchmark.prompts=4", "benchmark.group_size=4", "benchmark.prompt_tokens=8",
    "benchmark.response_tokens=12", "benchmark.updates=2", "benchmark.steps=2",
)  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("random") / "tiny")


def composed(*overrides: str):
    return compose(loader_of(CONFIGS), "benchmark", [*SMALL, *overrides])


@pytest.mark.parametrize("algorithm", ["grpo", "stare"])
def test_every_answer_has_the_length_that_is_asked_for(algorithm, model, tmp_path):
    cfg = composed(
        f"algorithm={algorithm}", "sampler=transformers", f"benchmark.folder={model}", f"paths.output={tmp_path}"
    )
    found = measured(cfg)
    assert [row["rollout/length"] for row in rows(tmp_path / "metrics.csv")] == [12, 12]
    assert found["shapes"]["updates"] == cfg.policy.optimization.mini_batch // 4 == 2
    rate = found["tokens_per_second_and_rank"]["rollout"]
    assert rate == pytest.approx(4 * 4 * 12 / found["seconds"]["median"]["sample"])
    assert len(found["seconds"]["steps"]) == 2
    assert found["card"] is None and "mfu" not in found and found["memory"] == {}
    assert json.loads(json.dumps(found)) == found
    peer.write(tmp_path / "peer.json", [9.0, 3.0], {"used": 1.0}, "trl")  # beside what the peer writes
    table = text(found | peer.beside(found, tmp_path / "peer.json", 0, "trl"))
    assert "\ntrl: 3.0 s a step, 1.0 GiB of the card\n" in table
    median = found["seconds"]["median"]
    assert sum(median[phase] for phase in ("sample", "sleep", "update", "sync")) <= median["step"] * 1.001


@pytest.mark.slow
def test_the_command_measures_with_vllm_and_writes_what_it_prints(model, forks, tmp_path):
    pytest.importorskip("vllm")
    out = tmp_path / "results" / "tiny.json"
    engine = "sampler.kv_cache_gib=0.05", "sampler.enforce_eager=true"
    places = f"benchmark.folder={model}", f"benchmark.out={out}", f"hydra.run.dir={tmp_path}/run"
    (result,) = forks("isentropic.commands.benchmark", ([*SMALL, *engine, *places], {}), kind="engine")
    assert result.returncode == 0, result.stderr
    found = json.loads(out.read_text())
    assert found["overrides"][: len(SMALL)] == list(SMALL)
    assert found["config"]["rollout"]["batch_size"] == 16 and found["versions"]["vllm"]
    assert "tiny: 0.00 B parameters, 1 x CPU; 4 x 4 answers of 8 + 12 tokens" in result.stdout
    assert f"{found['seconds']['median']['step']:.2f}" in result.stdout


@pytest.mark.parametrize(
    "override, sentence",
    [
        ("benchmark.vs=grpo", "benchmark.vs=grpo must be trl, verl or null"),
        ("trainer.devices=2", "benchmark.vs=trl compares on one GPU; trainer.devices=2 must be 1"),
    ],
)
def test_a_comparison_that_cannot_be_is_one_sentence(override, sentence, tmp_path):
    with pytest.raises(BadInput, match=f"^{sentence}$"):
        compared(composed("benchmark.vs=trl", override, f"paths.output={tmp_path}"))


def test_a_model_that_is_not_known_is_one_sentence(tmp_path):
    with pytest.raises(BadInput, match=r"^benchmark.model=2b is not known; known are 0.5b, 1.5b, 7b, tiny, Qwen/"):
        measured(composed("benchmark.model=2b", f"paths.output={tmp_path}"))


def test_the_flag_is_short_for_the_setting():
    assert with_flag(["seed=1", "--vs", "trl", "-m"]) == ["seed=1", "benchmark.vs=trl", "-m"]
    assert with_flag(["--vs=trl"]) == ["benchmark.vs=trl"]
    assert with_flag(["seed=1"]) == ["seed=1"]


def test_the_peer_takes_the_arguments_it_is_given(capfd, tmp_path):
    """All but the trainer, which is not there: it ends where it would be imported, and says so at once."""
    line = peer_arguments(composed(f"benchmark.folder={tmp_path}"), tmp_path / "peer.json")
    if peer.missing(trl.REQUIREMENT) is None:
        pytest.skip("the peer is there, and would run")
    assert ended("isentropic.benchmarking.trl", line) == 1
    assert "No module named" in capfd.readouterr().err
    with pytest.raises(BadInput, match=r"^python -m isentropic\.benchmarking\.trl ended with exit code 2$"):
        run("isentropic.benchmarking.trl", line[2:])  # without a folder
    assert not (tmp_path / "peer.json").exists()
