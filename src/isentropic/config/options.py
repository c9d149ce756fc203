"""Options of a command line, which are Hydra's own; all else on it is key=value."""

from argparse import ArgumentError, Namespace
from collections.abc import Sequence
from pathlib import Path

from hydra._internal.utils import get_args_parser

from isentropic.config.build import BadInput
from isentropic.config.nearest import nearest

MEANT = ("--help", "--version", "--multirun", "--config-dir", "--config-name", "--cfg", "--resolve", "--info")


def options_of(line: Sequence[str]) -> tuple[Namespace, list[str]]:
    """What is asked for, and the line as argparse takes it: first the settings, then the options.

    Raises BadInput for an option that there is not, for one without its value, and for a folder that is none.
    """
    parser = get_args_parser()
    parser.exit_on_error = False
    known = parser._option_string_actions  # argparse itself would take --experiment for --experimental-rerun
    for word in line:
        if word.startswith("-") and word.partition("=")[0] not in known:
            raise BadInput(no_option(word))
    try:
        found = parser.parse_intermixed_args(list(line))
    except ArgumentError as error:
        raise BadInput(f"{error.argument_name}: {error.message}") from error
    if found.config_dir is not None and not Path(found.config_dir).is_dir():
        raise BadInput(f"--config-dir={found.config_dir} is not a folder")
    settings = list(found.overrides)
    return found, [*settings, *apart(line, settings)]


def apart(line: Sequence[str], settings: Sequence[str]) -> list[str]:
    """What is left of a line without its settings."""
    left, rest = list(settings), list[str]()
    for word in line:
        if left and word == left[0]:
            del left[0]
        else:
            rest.append(word)
    return rest


def no_option(word: str) -> str:
    name, equals, _ = word.partition("=")
    close = nearest(name, MEANT)
    hint = f"did you mean {close}?" if close else "isentropic --help lists what there is"
    if equals and not close:
        hint = f"settings have no dashes, as in {word.lstrip('-')}"
    return f"there is no option {name}; {hint}"
