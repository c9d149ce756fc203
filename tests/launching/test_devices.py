import pytest
from omegaconf import OmegaConf

from isentropic.config.build import BadInput
from isentropic.launching.devices import Resources, parse_nvidia_smi, resources_of, visible_gpus

DIVIDED = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5c9e)
  MIG 1g.10gb     Device  0: (UUID: MIG-a1)
  MIG 2g.20gb     Device  1: (UUID: MIG-b2)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-77aa)
"""


@pytest.mark.parametrize(
    "given, names",
    [
        ("0,1", ["0", "1"]),
        ("3", ["3"]),
        ("GPU-5c9e, MIG-a1", ["GPU-5c9e", "MIG-a1"]),
        ("", []),
        ("-1", []),
        ("2,-1,0", ["2"]),
    ],
)
def test_what_is_visible_is_handed_out_under_the_names_it_has(given, names):
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": given}) == names


def test_of_a_divided_gpu_its_instances_are_handed_out():
    assert parse_nvidia_smi(DIVIDED) == ["MIG-a1", "MIG-b2", "1"]
    assert parse_nvidia_smi("No devices were found\n") == []


def test_a_machine_without_a_driver_has_no_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert visible_gpus({}) == []
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A (UUID: GPU-1)'\n")
    tool.chmod(0o755)
    assert visible_gpus({}) == ["0"]


@pytest.mark.parametrize(
    "trainer, expected",
    [
        ({}, Resources(1, 1, False)),
        ({"accelerator": "cpu", "devices": 2}, Resources(2, 1, False)),
        ({"accelerator": "gpu", "devices": "2", "num_nodes": 2}, Resources(2, 2, True)),
        ({"accelerator": "auto"}, Resources(1, 1, True)),
        ({"accelerator": "cuda", "devices": "auto"}, Resources(None, 1, True)),
        ({"accelerator": "gpu", "devices": -1}, Resources(None, 1, True)),
    ],
)
def test_a_job_needs_what_its_trainer_asks_for(trainer, expected):
    assert resources_of(OmegaConf.create({"trainer": trainer})) == expected


@pytest.mark.parametrize("devices", [[0, 2], "0,2"])
def test_devices_by_name_are_refused(devices):
    with pytest.raises(BadInput, match="give their number"):
        resources_of(OmegaConf.create({"trainer": {"devices": devices}}))
