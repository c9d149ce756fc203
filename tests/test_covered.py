import re

import pytest
from fixtures.processes import ROOT

TESTS = ["tests/test_phases.py", "-m=not slow", "--numprocesses=1", "-pno:cacheprovider"]


@pytest.mark.slow
def test_lines_that_a_worker_reaches_are_told(forks, tmp_path):
    told = {"COVERAGE": "1", "COVERAGE_FILE": str(tmp_path / "lines"), "PYTEST_XDIST_WORKER": None}
    (result,) = forks("pytest", (TESTS, told), where=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    missed = dict(re.findall(r"^src/isentropic/(\S+)\.py +\d+ +(\d+) ", result.stdout, re.M))
    assert int(missed.get("phases", 0)) < 10
    assert int(missed["train"]) > 100 and "tools/probe" in missed, (
        "what is not reached, or not even imported, is missed"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["lines"], "a worker's lines were not added"
