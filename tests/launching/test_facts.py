from dataclasses import replace

from isentropic.launching.facts import Facts, badly_started, look, spans, table, wrong
from isentropic.launching.place import Place

ONE = Facts(0, 0, "n1", "NVIDIA H100, 79 GiB", "GPU-a", {"python": "3.12.1", "torch": "2.11.0"}, {}, [])
OTHER = replace(ONE, rank=1, local=1, card="GPU-b")


def test_ranks_that_are_alike_and_apart_are_well():
    assert wrong([ONE, OTHER]) == []
    assert wrong([ONE, replace(OTHER, host="n2", card="GPU-a")]) == []


def test_two_ranks_on_the_same_gpu_are_told_by_its_number():
    assert wrong([ONE, replace(OTHER, card="GPU-a"), replace(OTHER, rank=2)]) == [
        "ranks 0-1 on n1 are on the same GPU; each needs one of its own"
    ]


def test_hosts_of_different_versions_are_told_apart():
    far = replace(OTHER, rank=4, host="n2", versions={"python": "3.12.1", "torch": "2.13.0", "vllm": "0.26.0"})
    assert wrong([ONE, OTHER, far]) == [
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
    where = Place(0, 2, 0, "n1", "n1", 15000, "srun")
    assert badly_started(where, 2, 1) == []
    assert badly_started(where, 4, 2) == [
        "srun started 2 processes, and trainer.num_nodes=2 times trainer.devices=4 asks for 8"
    ]
    assert "start it by srun or torchrun" in badly_started(Place(0, 1, 0, "n1", "n1", 0, None), 1, 2)[0]


def test_what_is_here_is_found(monkeypatch):
    import torch

    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    facts = look(Place(0, 1, 0, "n1", "localhost", 0, None), "cpu", 1, 1)
    assert facts.device.startswith("cpu") and facts.card is None and facts.wrong == []
    assert facts.versions["torch"] == torch.__version__ and facts.settings["NCCL_DEBUG"] == "INFO"
    if not torch.cuda.is_available():
        (text,) = look(Place(0, 1, 0, "n1", "localhost", 0, None), "gpu", 1, 1).wrong
        assert text.startswith("rank 0 on n1: trainer.accelerator=gpu, and no GPU is to be seen")
