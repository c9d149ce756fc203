"""`isentropic COMMAND ...`."""

import runpy
import sys

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


def main() -> None:
    name = sys.argv.pop(1)
    runpy.run_module(COMMANDS[name], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
