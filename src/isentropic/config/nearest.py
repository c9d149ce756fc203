"""The name that was probably meant."""

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """None where none is close. Letters that changed places, as in gpro, are nearer than another letter."""
    close = difflib.get_close_matches(name, list(names), n=5)
    return next((one for one in close if sorted(one) == sorted(name)), close[0] if close else None)
