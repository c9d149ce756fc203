"""Two ranks with gloo, as torchrun would start them: all well, and everything wrong at once."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from isentropic.commands.preflight import starts_engine


def test_a_server_is_started_once_and_every_other_engine_by_each_rank():
    samplers = [OmegaConf.create(sampler) for sampler in ({}, {"url": None}, {"url": "http://host:8000"})]
    assert [starts_engine(sampler, rank) for sampler in samplers for rank in (0, 1)] == [
        True, True, True, False, True, True
    ]  # fmt: skip


@pytest.mark.slow
def test_where_all_is_well_it_says_so(forks, tmp_path: Path):
    settings = ["trainer=ddp_cpu", "sampler=transformers", f"paths.logs={tmp_path}"]
    (found,) = forks("isentropic.commands.preflight", (settings, {}))
    assert (found.returncode, found.stderr) == (0, "")
    lines = found.stdout.splitlines()
    assert lines[0].split() == ["rank", "host", "local", "device"]
    assert [line.split()[0] for line in lines[1:3]] == ["0", "1"]
    assert [line.partition(",")[0] for line in lines[-4:]] == [
        "files: works on 2 ranks", "all-reduce: works on 2 ranks", "sampler: works on 2 ranks", "nothing is wrong"
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_each_thing_that_is_wrong_is_said_in_words(forks, world, tmp_path: Path):
    first, second = world(2)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "qwen3"}')  # and no weights beside it
    settings = ["trainer=ddp_cpu", "sampler=transformers", f"sampler.path={tmp_path / 'model'}"]
    settings += ["limits.files=1", "limits.all_reduce=2"]
    variables = {"NCCL_SOCKET_IFNAME": "nosuch0", "GLOO_SOCKET_IFNAME": "nosuch0"}
    one, other = forks(
        "isentropic.commands.preflight",
        ([*settings, f"paths.logs={tmp_path}"], first),
        ([*settings, f"paths.logs={tmp_path / 'elsewhere'}"], second | variables),
    )
    assert (one.returncode, other.returncode, one.stderr, other.stdout) == (1, 1, "", "")
    wrong = [line for line in one.stdout.splitlines() if line.startswith("wrong: ")]
    for text in (
        "NCCL_SOCKET_IFNAME=nosuch0 (there are lo",
        "GLOO_SOCKET_IFNAME=nosuch0 (there are lo",
        "does not see what rank 0 writes into paths.logs=",
        "the gloo all-reduce failed",
        "the gloo all-reduce did not end within 2 s",
        "the sampler did not start: ",
    ):
        assert any(text in line for line in wrong), f"{text} is not in {one.stdout}"


@pytest.mark.slow
def test_a_mistyped_setting_and_an_address_that_nobody_knows_are_one_sentence(forks, world):
    nowhere = world(2)[1] | {"MASTER_ADDR": "nobody.invalid"}
    found = forks("isentropic.commands.preflight", (["trainer.devises=2"], {}), ([], nowhere))
    for one, text in zip(found, ("did you mean devices?", "cannot resolve MASTER_ADDR=nobody.invalid"), strict=True):
        assert one.returncode == 2 and text in one.stderr
        assert one.stderr.startswith("error: ") and one.stderr.count("\n") == 1
