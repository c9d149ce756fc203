"""A SLURM of two nodes, set up once for the tests of this folder and torn down after them."""

import os
import shutil
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest


def load():
    spec = spec_from_file_location("cluster", Path(__file__).with_name("cluster.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def slurm():
    """The script cluster.py, where there can be a cluster."""
    script = load()
    if reason := script.missing():
        pytest.skip(f"no SLURM here: {reason}")
    return script


@pytest.fixture(scope="session")
def cluster(slurm):
    """Its folder; SLURM's commands find it, from this process and those that it starts."""
    folder = Path(tempfile.mkdtemp(prefix="slurm"))  # a short path, as sockets have to have
    before = os.environ.get("SLURM_CONF")
    os.environ |= slurm.up(folder / "cluster")
    yield folder / "cluster"
    slurm.down(folder / "cluster")
    os.environ.pop("SLURM_CONF") if before is None else os.environ.update(SLURM_CONF=before)
    shutil.rmtree(folder)
