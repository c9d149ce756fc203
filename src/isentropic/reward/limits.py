"""A call that may hang, with a limit to its time."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any


def within(seconds: float | None, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What it returns, awaited if it must be. Raises TimeoutError after so many seconds, and whatever it raises.

    What hangs is left behind in a thread of its own, which ends with the process: Python cannot end it.
    """
    if seconds is None:
        return settled(function, *given, **named)
    result, failed = list[Any](), list[BaseException]()

    def work() -> None:
        try:
            result.append(settled(function, *given, **named))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not result:
        raise TimeoutError(f"did not come back within {seconds:g} seconds (timeout)")
    return result[0]


def settled(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What a function gives, or its coroutine comes to, in an event loop of its own."""
    value = function(*given, **named)
    return asyncio.run(awaited(value)) if inspect.isawaitable(value) else value


async def awaited(value: Any) -> Any:
    """A coroutine around anything that can be awaited, as asyncio.run takes no other."""
    return await value
