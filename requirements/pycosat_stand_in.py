"""Stands in for pycosat where it was not built: reasoning_gym always imports it, for its zebra puzzles alone."""

from typing import Any


def itersolve(*clauses: Any, **settings: Any) -> Any:
    raise RuntimeError(
        "zebra puzzles need pycosat, which needs a C compiler; install one, then: pip install pycosat==0.6.6"
    )


solve = itersolve
