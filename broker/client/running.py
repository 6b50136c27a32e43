"""A service of the client library as a program of its own: it serves until a signal stops it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any


async def until_signal(serve: Coroutine[Any, Any, None], stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Serves until Ctrl-C or SIGTERM, which stop it in its own time; a second one ends it at once.

    Only the main thread may take signals; elsewhere whoever runs that thread stops the service.

    Args:
        serve: Serves until it is stopped, or raises.
        stop: Lets ``serve`` return.

    Raises:
        Exception: What ``serve`` raised.
    """
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(serve)
    stops: list[asyncio.Task[None]] = []

    def on_signal() -> None:
        if stops:
            serving.cancel()
        else:
            stops.append(asyncio.create_task(stop()))

    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    for number in signals:
        loop.add_signal_handler(number, on_signal)
    try:
        await asyncio.wait({serving})
        if not serving.cancelled():
            serving.result()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
        serving.cancel()
        await asyncio.wait({serving, *stops})
