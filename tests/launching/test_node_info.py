from dataclasses import replace

import pytest

from isentropic.launching.node_info import (
    NodeInfo,
    Rank,
    find_rank,
    inspect,
    missing_interfaces,
    problems_of,
    spans,
    start_problems,
    table,
)

ONE = NodeInfo(0, 0, "n1", "NVIDIA H100, 79 GiB", "GPU-a", {"python": "3.12.1", "torch": "2.11.0"}, {}, [])
OTHER = replace(ONE, rank=1, local=1, gpu="GPU-b")


def test_ranks_that_are_alike_and_apart_are_well():
    assert problems_of([ONE, OTHER]) == []
    assert problems_of([ONE, replace(OTHER, host="n2", gpu="GPU-a")]) == []


def test_two_ranks_on_the_same_gpu_are_told_by_its_number():
    assert problems_of([ONE, replace(OTHER, gpu="GPU-a"), replace(OTHER, rank=2)]) == [
        "ranks 0-1 on n1 are on the same GPU; each needs one of its own"
    ]


def test_hosts_of_different_versions_are_told_apart():
    far = replace(OTHER, rank=4, host="n2", versions={"python": "3.12.1", "torch": "2.13.0", "vllm": "0.26.0"})
    assert problems_of([ONE, OTHER, far]) == [
        "torch differs: 2.11.0 on n1 (rank 0-1), 2.13.0 on n2 (rank 4); all ranks need the same environment",
        "vllm differs: none on n1 (rank 0-1), 0.26.0 on n2 (rank 4); all ranks need the same environment",
    ]


def test_the_table_begins_with_rank_0_and_says_what_is_common_once():
    settings = {"NCCL_SOCKET_IFNAME": "eth0"}
    lines = table([replace(OTHER, settings=settings), replace(ONE, settings=settings)]).splitlines()
    assert lines == [
        "rank  host  local  device",
        "0     n1    0      NVIDIA H100, 79 GiB",
        "1     n1    1      NVIDIA H100, 79 GiB",
        "versions on rank 0-1: python 3.12.1, torch 2.11.0",
        "NCCL_SOCKET_IFNAME=eth0 on rank 0-1",
    ]


def test_ranks_in_a_row_are_one_span():
    assert spans([7, 0, 1, 2, 5]) == "0-2, 5, 7"


def test_a_launcher_that_starts_too_few_is_told(monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "2")
    where = Rank(0, 2, 0, "n1", "n1", 15000, "srun")
    assert start_problems(where, 2, 1) == []
    assert start_problems(where, 4, 2) == [
        "srun started 2 processes, and trainer.num_nodes=2 times trainer.devices=4 asks for 8"
    ]
    assert "start it by srun or torchrun" in start_problems(Rank(0, 1, 0, "n1", "n1", 0, None), 1, 2)[0]


def test_what_is_here_is_found(monkeypatch):
    import torch

    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    found = inspect(Rank(0, 1, 0, "n1", "localhost", 0, None), "cpu", 1, 1)
    assert found.device.startswith("cpu") and found.gpu is None and found.problems == []
    assert found.versions["torch"] == torch.__version__ and found.settings["NCCL_DEBUG"] == "INFO"
    if not torch.cuda.is_available():
        (text,) = inspect(Rank(0, 1, 0, "n1", "localhost", 0, None), "gpu", 1, 1).problems
        assert text.startswith("rank 0 on n1: trainer.accelerator=gpu, and no GPU is to be seen")


SRUN = {
    "SLURM_STEP_ID": "0", "SLURM_JOB_NAME": "train", "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1",
    "SLURM_JOB_ID": "1230042", "SLURM_NODELIST": "gpu[07-08]", "SLURMD_NODENAME": "gpu08",
}  # fmt: skip


def test_a_process_started_by_hand_is_a_run_of_its_own():
    alone = find_rank({})
    assert (alone.rank, alone.size, alone.launcher) == (0, 1, None)


def test_srun_says_who_one_is_and_the_job_where_all_meet():
    one = find_rank(SRUN)
    assert (one.rank, one.size, one.local, one.launcher) == (5, 8, 1, "srun")
    assert (one.address, one.port, str(one)) == ("gpu07", 15042, "rank 5 on gpu08")
    own = find_rank(SRUN | {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4000"})
    assert (own.address, own.port) == ("10.0.0.1", 4000)


def test_the_address_of_rank_0_is_that_of_lightning(monkeypatch):
    from lightning.fabric.plugins.environments import SLURMEnvironment

    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # restored later, as Lightning sets both
        monkeypatch.delenv(name)
    for name, value in (SRUN | {"SLURM_NTASKS_PER_NODE": "4"}).items():
        monkeypatch.setenv(name, value)
    theirs, ours = SLURMEnvironment(), find_rank(SRUN)
    assert (theirs.main_address, theirs.main_port) == (ours.address, ours.port)
    assert (theirs.global_rank(), theirs.local_rank(), theirs.world_size()) == (ours.rank, ours.local, ours.size)


@pytest.mark.parametrize(
    "nodes, name",
    [("n1", "n1"), ("n[1-2]", "n1"), ("gpu[07,12-13],login1", "gpu07"), ("a-2,b-1", "a-2"), ("rack1-n[3]", "rack1-n3")],
)
def test_rank_0_is_on_the_first_node(nodes, name):
    assert find_rank(SRUN | {"SLURM_NODELIST": nodes}).address == name


def test_torchrun_is_known_by_its_variables_and_missed_where_some_are():
    one = find_rank({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"})
    assert (one.rank, one.size, one.local, one.address, one.port) == (3, 4, 1, "n1", 29500)
    with pytest.raises(ValueError, match="without MASTER_ADDR and MASTER_PORT"):
        find_rank({"RANK": "3", "WORLD_SIZE": "4"})


def test_a_python_that_the_batch_script_starts_itself_would_wait_for_ever():
    script = {key: value for key, value in SRUN.items() if key != "SLURM_STEP_ID"}
    with pytest.raises(ValueError, match="put srun before python"):
        find_rank(script)
    assert find_rank(script | {"SLURM_JOB_NAME": "bash"}).launcher is None


@pytest.mark.parametrize(
    "variable, value, missing",
    [
        ("NCCL_SOCKET_IFNAME", "l", False),  # a prefix
        ("NCCL_SOCKET_IFNAME", "=l", True),
        ("NCCL_SOCKET_IFNAME", "=lo", False),
        ("NCCL_SOCKET_IFNAME", "^docker,nosuch", False),
        ("NCCL_SOCKET_IFNAME", "nosuch,lo", False),
        ("NCCL_SOCKET_IFNAME", "nosuch", True),
        ("GLOO_SOCKET_IFNAME", "l", True),
        ("GLOO_SOCKET_IFNAME", "lo", False),
    ],
)
def test_an_interface_that_is_not_there_is_found(variable, value, missing):
    found = missing_interfaces({variable: value})
    assert len(found) == missing
    if missing:
        assert found[0].startswith(f"{variable}={value} (there are lo")
