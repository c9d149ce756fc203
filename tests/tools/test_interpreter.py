import sys

import pytest
from fixtures.processes import everyone, is_child

from isentropic.tools.cage import STRICT
from isentropic.tools.interpreter import LONGEST, Interpreter, Result

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a cage")
SETTINGS = {"workers": 1, "timeout": 5.0, "memory": 2.0, "output": 100, "lines": "last", "cage": STRICT}


@pytest.fixture(scope="module")
def interpreter():
    made = Interpreter(**SETTINGS)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("program", "text", "word"),
    [
        ("print(2**10)", "1024\n", "ok"),
        ("1/0", "ZeroDivisionError: division by zero\n", "error"),
        ("import os\nos.fork()", "PermissionError: [Errno 1] Operation not permitted\n", "error"),
        ("print(1", "SyntaxError: '(' was never closed\n", "error"),
        ("import sys\nprint(1)\nsys.exit()", "1\n", "ok"),
        ("raise SystemExit('done')", "done\n", "error"),
        ("import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')", "a\nb\nc\n", "ok"),
        ("import threading\nthreading.Thread(target=lambda: print('later')).start()", "later\n", "ok"),
        ("print('a' * 1000)", "a" * 100, "output"),
        ("x = 'a' * 10**11", "MemoryError\n", "memory"),
        ("print('\\ud800')", "?\n", "ok"),
        ("import os\nos.write(1, b'\\xff')", "\ufffd", "ok"),
        ("import sympy\nprint(sympy.factor('x**2 - 1'))", "(x - 1)*(x + 1)\n", "ok"),
        ("#" * (LONGEST + 1), f"a program has at most {LONGEST} characters", "refused"),
        ("", "", "ok"),
    ],
)
def test_a_program_says_what_it_prints_and_how_it_ends(interpreter, program, text, word):
    assert interpreter([program]) == [Result(text, word)]


def test_nothing_is_kept_from_one_program_to_the_next(interpreter):
    results = interpreter(["x = 1\nimport math\nmath.pi = 3", "print(x)", "import math\nprint(math.pi)"])
    assert [result.word for result in results] == ["ok", "error", "ok"]
    assert results[2].text.startswith("3.14")


def test_a_loop_ends_at_its_limit():
    interpreter = Interpreter(**SETTINGS | {"timeout": 0.3})
    assert [one.word for one in interpreter(["while True: pass", "print(1)"])] == ["timeout", "ok"]
    interpreter.close()


def test_a_traceback_shows_the_program_alone():
    interpreter = Interpreter(**SETTINGS | {"lines": "all", "output": 1000})
    ((text, word),) = [(one.text, one.word) for one in interpreter(["import json\n\njson.loads('{')"])]
    interpreter.close()
    assert word == "error" and 'File "<program>", line 3, in <module>' in text and "json.loads('{')" in text
    assert text.count("File ") == 1 and "JSONDecodeError" in text.splitlines()[-1]


def test_killed_programs_are_waited_for():
    """Also of those that ended as zombies, which fill a machine's process table where nobody waits for them."""
    made = Interpreter(**SETTINGS | {"timeout": 0.1, "workers": 2})
    ended = made([f"while True: {number}" if number % 6 == 0 else f"print({number})" for number in range(30)])
    assert [one.word for one in ended].count("timeout") == 5 and [one.word for one in ended].count("ok") == 25
    servers = [worker.process.pid for worker in made.pool.workers]
    inside = [child for server in servers for child in children(server)]  # in namespaces, the server's one child forks
    left = [child for one in inside for child in children(one)] if "namespaces" in made.pool.workers[0].had else inside
    made.close()
    assert left == []


def children(parent):
    """Zombies too."""
    return [pid for pid in everyone() if is_child(pid, parent)]


@pytest.mark.parametrize("name", ["workers", "timeout", "memory", "output"])
def test_limits_that_allow_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"interpreter.{name}=0 lets no program run"):
        Interpreter(**SETTINGS | {name: 0})
