import subprocess
import sys

import pytest


def evaluated(answer):
    """In a process of its own, as a guard stays. x and namedtuple are what a scorer knows."""
    code = "import sys\nfrom collections import namedtuple\nfrom isentropic.tools.guard import guard\nx = 3\nguard()\n"
    code += "try: print(eval(sys.argv[1]))\nexcept PermissionError as error: print('refused:', error)"
    return subprocess.run([sys.executable, "-c", code, answer], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("answer", "value"),
    [("1 + 2", "3"), ("[[1, 2], [3, x]]", "[[1, 2], [3, 3]]"), ("sum(k for k in range(4))", "6"),
     ("namedtuple('T', 'a b')(1, 2).a", "1")],
)  # fmt: skip
def test_what_computes_is_evaluated(answer, value):
    assert evaluated(answer) == f"{value}\n"


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("__import__('os')", "__import__"), ("().__class__", "__class__"), ("open('/dev/null')", "open"),
        ("[(lambda: x.__class__)() for k in range(3)]", "__class__"), ("getattr(1, 'real')", "getattr"),
        ("(k for k in [1]).gi_frame", "gi_frame"), ("\uff4fpen('/dev/null')", "open"),
        ("sys._getframe()", "_getframe"),
    ],
)  # fmt: skip
def test_what_reaches_for_the_interpreter_is_refused(answer, name):
    assert evaluated(answer) == f"refused: an answer may not name {name}\n"
