"""The matrix of processors runs each cell as the kind of processor that it says."""

from pathlib import Path

import pytest

KIND = """
import os, torch
def test_the_kernels_are_those_of_all_processors():
    assert torch.backends.cpu.get_cpu_capability() == "DEFAULT"
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
"""


@pytest.mark.slow
def test_a_test_that_holds_on_one_kind_of_processor_alone_is_red_on_the_others(script, tmp_path: Path, capsys):
    processors = script(Path(__file__).with_name("processors.py"))
    place = tmp_path / "test_kind.py"
    place.write_text(KIND)
    kinds = processors.kinds()
    assert kinds[0] == "default" and capsys.readouterr().out.count("not on this processor") == 3 - len(kinds)
    for kind in kinds:
        code, said = processors.run([str(place), "--numprocesses=0"], ATEN_CPU_CAPABILITY=kind, OMP_NUM_THREADS="2")
        assert (code == 0) == (kind == "default"), said
        assert ("test_the_kernels_are_those_of_all_processors" in capsys.readouterr().out) == (code != 0)
