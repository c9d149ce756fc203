import pytest

from isentropic.launching.place import barred, first, missing_interfaces, place

SRUN = {
    "SLURM_STEP_ID": "0", "SLURM_JOB_NAME": "train", "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1",
    "SLURM_JOB_ID": "1230042", "SLURM_NODELIST": "gpu[07-08]", "SLURMD_NODENAME": "gpu08",
}  # fmt: skip


def test_a_process_started_by_hand_is_a_run_of_its_own():
    alone = place({})
    assert (alone.rank, alone.size, alone.launcher) == (0, 1, None)


def test_srun_says_who_one_is_and_the_job_where_all_meet():
    one = place(SRUN)
    assert (one.rank, one.size, one.local, one.launcher) == (5, 8, 1, "srun")
    assert (one.address, one.port, str(one)) == ("gpu07", 15042, "rank 5 on gpu08")
    own = place(SRUN | {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4000"})
    assert (own.address, own.port) == ("10.0.0.1", 4000)


def test_the_meeting_point_is_that_of_lightning(monkeypatch):
    from lightning.fabric.plugins.environments import SLURMEnvironment

    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # restored later, as Lightning sets both
        monkeypatch.delenv(name)
    for name, value in (SRUN | {"SLURM_NTASKS_PER_NODE": "4"}).items():
        monkeypatch.setenv(name, value)
    theirs, ours = SLURMEnvironment(), place(SRUN)
    assert (theirs.main_address, theirs.main_port) == (ours.address, ours.port)
    assert (theirs.global_rank(), theirs.local_rank(), theirs.world_size()) == (ours.rank, ours.local, ours.size)


@pytest.mark.parametrize(
    "nodes, name",
    [("n1", "n1"), ("n[1-2]", "n1"), ("gpu[07,12-13],login1", "gpu07"), ("a-2,b-1", "a-2"), ("rack1-n[3]", "rack1-n3")],
)
def test_rank_0_is_on_the_first_node(nodes, name):
    assert first(nodes) == name


def test_torchrun_is_known_by_its_variables_and_missed_where_some_are():
    one = place({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"})
    assert (one.rank, one.size, one.local, one.address, one.port) == (3, 4, 1, "n1", 29500)
    with pytest.raises(ValueError, match="without MASTER_ADDR and MASTER_PORT"):
        place({"RANK": "3", "WORLD_SIZE": "4"})


def test_an_address_that_nobody_knows_bars_the_way():
    unknown = SRUN | {"MASTER_ADDR": "nobody.invalid"}
    assert "cannot resolve MASTER_ADDR=nobody.invalid" in str(barred(place(unknown), unknown))
    known = SRUN | {"MASTER_ADDR": "127.0.0.1"}
    assert barred(place(known), known) is None


def test_a_python_that_the_batch_script_starts_itself_would_wait_for_ever():
    script = {key: value for key, value in SRUN.items() if key != "SLURM_STEP_ID"}
    assert "put srun before python" in str(barred(place(script), script))
    shell = script | {"SLURM_JOB_NAME": "bash"}
    assert barred(place(shell), shell) is None


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
    assert (variable in found) == missing
    if missing:
        assert "there are lo" in found[variable]
