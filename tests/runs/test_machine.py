import os
import subprocess

import pytest

from isentropic.runs.machine import commit, machine


def test_a_machine_has_what_tells_why_digits_differ(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    found = machine()
    assert (found["threads"], found["capability"]) == ("3", "avx2") and found["processor"]
    assert 1 <= found["cores"] <= os.cpu_count()


def test_the_commit_is_of_the_code_and_of_no_other_checkout(tmp_path):
    assert commit(tmp_path) is None
    try:
        subprocess.run(["git", "init", str(tmp_path)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no git here")
    assert commit(tmp_path) is None
