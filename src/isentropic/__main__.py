"""isentropic COMMAND key=value ...: RLVR research in which entropy is a controlled quantity."""

import ast
import difflib
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

from isentropic import __version__

COMMANDS = {
    "train": "isentropic.train",
    "eval": "isentropic.eval",
    "report": "isentropic.commands.report",
    "plan": "isentropic.commands.plan",
    "preflight": "isentropic.commands.preflight",
    "tune": "isentropic.commands.tune",
    "export": "isentropic.commands.export",
    "pretrain": "isentropic.commands.pretrain",
    "methods": "isentropic.commands.methods_table",
    "inspect": "isentropic.commands.inspect_rollouts",
    "convert": "isentropic.commands.convert_gguf",
    "benchmark": "isentropic.commands.benchmark",
}
HELP = ("-h", "--help")
WITH_PARSER = ("report", "tune")  # whose own parser lists their options
START = """isentropic train runs nothing without settings. Try

    isentropic train experiment=quickstart      # two minutes on a CPU
    isentropic train --help
"""


def main() -> None:
    """Raises SystemExit."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    arguments = sys.argv[2:]
    if name in (*HELP, "help"):
        print(overview())
    elif name in ("-V", "--version", "version"):
        print(f"isentropic {__version__}")
    elif name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(COMMANDS)}"
        raise SystemExit(f"error: there is no command {name}; {advice}")
    elif set(HELP) & set(arguments) and name not in WITH_PARSER:
        print(help_of(name))
    elif name == "train" and not arguments:
        print(START, file=sys.stderr)
        raise SystemExit(2)
    else:
        del sys.argv[1]
        runpy.run_module(COMMANDS[name], run_name="__main__", alter_sys=True)


def overview() -> str:
    lines = [f"  {name:<10} {described(name).splitlines()[0]}" for name in COMMANDS]
    more = "isentropic COMMAND --help says more; isentropic --version"
    return "\n".join(["usage: isentropic COMMAND key=value ...", "", *lines, "", more])


def help_of(name: str) -> str:
    more = (
        "isentropic " + name + " --cfg job prints every setting of a command line" if name in ("train", "eval") else ""
    )
    return f"usage: isentropic {name} ...\n\n{described(name)}\n\n{more}".rstrip()


def described(name: str) -> str:
    """The docstring of the command's module, which is not imported for it."""
    spec = find_spec(COMMANDS[name])
    assert spec is not None and spec.origin is not None
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""


if __name__ == "__main__":
    main()
