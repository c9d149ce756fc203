"""isentropic COMMAND key=value ...: RLVR research in which entropy is a controlled quantity."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:  # by `python -m`, which looks for modules where it is called
    sys.path.append(sys.path.pop(0))  # in the end, or a random.py there would stand for Python's own

import ast
import atexit
import gc
import re
import runpy
import textwrap
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

from isentropic import __version__
from isentropic.config.nearest import nearest
from isentropic.config.own import CONFIGS, own_configs
from isentropic.config.refused import refuse
from isentropic.config.screen import lasting_screen

COMMANDS = {
    "new": "isentropic.commands.new",
    "train": "isentropic.train",
    "eval": "isentropic.eval",
    "compare": "isentropic.commands.compare",
    "contamination": "isentropic.commands.contamination",
    "report": "isentropic.commands.report",
    "words": "isentropic.commands.words",
    "plan": "isentropic.commands.plan",
    "audit-task": "isentropic.commands.audit_task",
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
WITH_PARSER = ("report", "compare", "words", "tune")  # whose own parser lists their options
COMPOSED = (
    "train",
    "eval",
    "plan",
    "audit-task",
    "preflight",
    "inspect",
    "benchmark",
)  # whose settings are composed from configs/
KEYS = """\
Set any value by its dotted key: `--cfg job` prints all of them, print_config=true also where each comes from. With -m,
values with commas between them are a sweep: each combination is a job in a process and folder of its own, and the
same command later does what is missing; hydra.launcher.jobs=4 runs so many at once, hydra/launcher=slurm sends them to
SLURM."""


@lasting_screen()
def main() -> None:
    """Raises SystemExit."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    arguments = sys.argv[2:]
    if name in (*HELP, "help"):
        print(overview())
    elif name in ("-V", "--version", "version"):
        print(f"isentropic {__version__}")
    elif name not in COMMANDS:
        close = nearest(name, COMMANDS)
        advice = f"did you mean {close}?" if close else f"there are {', '.join(COMMANDS)}"
        refuse(f"there is no command {name}; {advice}")
    elif set(HELP) & set(arguments) and name not in WITH_PARSER:
        print(help_of(name))
    else:
        del sys.argv[1]
        atexit.register(gc.freeze)  # or Python would end by looking for garbage in all that was imported: seconds
        try:
            runpy.run_module(COMMANDS[name], run_name="__main__", alter_sys=True)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            raise SystemExit(130) from None
        except ModuleNotFoundError as error:
            if (extra := extra_with(error.name or "")) is None:
                raise
            refuse(f"isentropic {name} needs the package {error.name}; pip install 'isentropic[{extra}]'")


def extra_with(module: str) -> str | None:
    """The extra that brings a package whose module has its name; None where it is of no extra that commands use."""
    for line in requires("isentropic") or []:
        found = re.match(r"([\w-]+).*\bextra == ['\"](report|tune|lora|wandb)['\"]", line)
        if found and found[1].replace("-", "_") == module.partition(".")[0]:
            return found[2]
    return None


def overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}} {described(name).splitlines()[0]}" for name in COMMANDS]
    more = "isentropic COMMAND --help says more; isentropic --version"
    return "\n".join(["usage: isentropic COMMAND key=value ...", "", *lines, "", more])


def help_of(name: str) -> str:
    text = f"usage: isentropic {name} ...\n\n{described(name)}"
    return f"{text}\n\n{groups()}" if name in COMPOSED else text


def groups() -> str:
    """What can be chosen, from the names of files alone, as composing a config would take seconds."""
    lines = ["Choose with group=option, or group=[option,option] where several go together:", ""]
    options: dict[str, list[str]] = {}
    for folder in (CONFIGS, *own_configs().values()):
        for file in folder.rglob("*.yaml"):
            options.setdefault(file.parent.relative_to(folder).as_posix(), []).append(file.stem)
    for group in sorted(options.keys() - {"."}):
        listed = f"  {group}: {', '.join(sorted(options[group]))}"
        lines.append(textwrap.fill(listed, 110, subsequent_indent="    "))
    return "\n".join([*lines, "", KEYS])


def described(name: str) -> str:
    """The docstring of the command's module, which is not imported for it."""
    spec = find_spec(COMMANDS[name])
    assert spec is not None and spec.origin is not None
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""


if __name__ == "__main__":
    main()
