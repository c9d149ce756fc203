"""How a command ends that was asked for what cannot be: one sentence, and an exit code."""

import sys
from typing import NoReturn

NOTHING_RAN = 2  # as of wrong usage; a run that failed ends with 1


def refuse(error: object, code: int = NOTHING_RAN) -> NoReturn:
    """Raises SystemExit."""
    print(f"error: {error}", file=sys.stderr, flush=True)
    raise SystemExit(code)
