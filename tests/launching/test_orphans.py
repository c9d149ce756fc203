import subprocess
import sys

CHILD = """
import os, threading
from isentropic.launching.orphans import end_with

end_with(os.getppid(), 0.0)
print("begun", flush=True)
threading.Event().wait()
"""
PARENT = f"""
import os, subprocess, sys

child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline().strip(), child.poll(), flush=True)
os._exit(3)
"""


def test_a_rank_that_waits_for_ever_ends_with_the_one_that_started_it():
    result = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, timeout=60)
    # and all who could write to its pipes have ended, or there would be no end of what they say
    assert (result.returncode, result.stdout) == (3, b"begun None\n"), result.stderr
