"""Tasks that may outlast the call that they serve, and that a stop waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any


class Tasks:
    """The tasks that read and write for calls, so that a stop can wait for the last of them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str, context: Context | None = None) -> None:
        """Runs ``work`` as a task that may outlast its call's own, for who reads or writes is never cancelled.

        Args:
            work: What to do.
            name: The task's.
            context: What it runs in; None: a copy of the current one.
        """
        task = asyncio.get_running_loop().create_task(work, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self, seconds: float) -> None:
        """Returns when all have ended, or after ``seconds``."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
