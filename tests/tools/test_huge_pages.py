import os
import re
from pathlib import Path

import pytest

from isentropic.tools import huge_pages


def huge() -> int:
    """KiB of this process in such pages."""
    found = re.search(r"AnonHugePages:\s+(\d+)", Path("/proc/self/smaps_rollup").read_text())
    return int(found[1]) if found else 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process of its own")
def test_what_is_loaded_is_merged_where_the_system_can_and_stays_what_it_is():
    child = os.fork()
    if not child:
        os._exit(merged())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 2:
        pytest.skip("this kernel merges no pages when asked")
    assert code == 0


def merged() -> int:
    code = 1
    try:
        data, before = bytearray(range(256)) * 2**16, huge()  # 16 MiB
        if not huge_pages.merge():
            code = 2
        elif huge() > before and data == bytearray(range(256)) * 2**16:
            code = 0
    finally:
        os._exit(code)


def test_a_system_without_such_pages_merges_none(monkeypatch):
    monkeypatch.setattr(huge_pages, "SIZE", "/nowhere")
    assert huge_pages.merge() == 0
