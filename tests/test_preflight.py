"""Two ranks with gloo, as torchrun would start them: all well, and everything wrong at once."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from omegaconf import OmegaConf

from isentropic.preflight import starts_engine

ROOT = Path(__file__).parents[1]
FOREIGN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_", "NCCL_", "GLOO_")


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    own = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | variables
    return subprocess.Popen(
        [sys.executable, "-m", "isentropic.preflight", *arguments], env=clean | own, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def as_torchrun(rank: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_server_is_started_once_and_every_other_engine_by_each_rank():
    samplers = [OmegaConf.create(sampler) for sampler in ({}, {"url": None}, {"url": "http://host:8000"})]
    assert [starts_engine(sampler, rank) for sampler in samplers for rank in (0, 1)] == [
        True, True, True, False, True, True
    ]  # fmt: skip


def test_where_all_is_well_it_says_so(tmp_path: Path):
    process = start("trainer=ddp_cpu", "sampler=transformers", f"paths.logs={tmp_path}")
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["rank", "host", "local", "device"]
    assert [line.split()[0] for line in lines[1:3]] == ["0", "1"]
    assert [line.partition(",")[0] for line in lines[-4:]] == [
        "files: works on 2 ranks", "all-reduce: works on 2 ranks", "sampler: works on 2 ranks", "nothing is wrong"
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_each_thing_that_is_wrong_is_said_in_words(tmp_path: Path):
    port = free_port()
    settings = ["trainer=ddp_cpu", "sampler=scripted", "limits.files=1", "limits.all_reduce=5"]
    variables = {"NCCL_SOCKET_IFNAME": "nosuch0", "GLOO_SOCKET_IFNAME": "nosuch0"}
    one = start(*settings, f"paths.logs={tmp_path}", **as_torchrun(0, port))
    other = start(*settings, f"paths.logs={tmp_path / 'elsewhere'}", **as_torchrun(1, port), **variables)
    out, err = one.communicate(timeout=300)
    said, _ = other.communicate(timeout=60)
    assert (one.returncode, other.returncode, err, said) == (1, 1, "", "")
    wrong = [line for line in out.splitlines() if line.startswith("wrong: ")]
    for text in (
        "NCCL_SOCKET_IFNAME=nosuch0 (there are lo",
        "GLOO_SOCKET_IFNAME=nosuch0 (there are lo",
        "does not see what rank 0 writes into paths.logs=",
        "the gloo all-reduce failed",
        "the gloo all-reduce did not end within 5 s",
        "the sampler did not start: KeyError",
    ):
        assert any(text in line for line in wrong), f"{text} is not in {out}"


def test_a_mistyped_setting_and_an_address_that_nobody_knows_are_one_sentence():
    mistyped = start("trainer.devises=2")
    lost = start(**(as_torchrun(1, 29500) | {"MASTER_ADDR": "nobody.invalid"}))
    for process, text in ((mistyped, "did you mean devices?"), (lost, "cannot resolve MASTER_ADDR=nobody.invalid")):
        _, err = process.communicate(timeout=300)
        assert process.returncode == 1 and err.startswith("error: ") and err.count("\n") == 1 and text in err
