"""Child processes of ``demo``: each runs this same command, tells its state by JSON lines, and is never left behind.

Three things end a child: SIGTERM from :meth:`Children.stop`, SIGKILL if that takes too long, and the closing of its
standard input, which it watches, however this process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from broker.cli.errors import Failure

STOP_GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_LAST_LINES = 12
_LINE_BYTES = 1 << 20


class ChildFailure(Failure):
    """A child ended, or did not get ready in time.

    Attributes:
        told: What the child itself gave as the reason, an ``event: error``; None where it gave none.
    """

    def __init__(self, message: str, told: dict[str, Any] | None) -> None:
        super().__init__(message, code="UNAVAILABLE", reason="CHILD")
        self.told = told


class Child:
    """One running child.

    Attributes:
        name: What it is called in messages.
        pid: Its process id, which is its process group's too.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.pid = process.pid
        self._process = process
        self._records: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._readers = [asyncio.create_task(self._read_records()), asyncio.create_task(self._read_log())]

    async def event(self, name: str, timeout: float) -> dict[str, Any]:  # noqa: ASYNC109 - the message names it
        """The next record of that event; other events before it are passed over.

        Args:
            name: Of the event, such as ``ready``.
            timeout: Seconds to wait at most.

        Raises:
            ChildFailure: It said ``error``, ended, or was not there in time; the last lines of its log are shown.
        """
        try:
            async with asyncio.timeout(timeout):
                while (record := await self._records.get()) is not None:
                    if record.get("event") == name:
                        return record
                    if record.get("event") == "error":
                        raise ChildFailure(f"{self.name}: {record.get('message')}", record)
                code = await self._process.wait()
                await asyncio.wait(self._readers)
        except TimeoutError:
            raise ChildFailure(self._told(f"{self.name} was not ready within {timeout:g} s"), None) from None
        raise ChildFailure(self._told(f"{self.name} ended with exit code {code} before it was ready"), None)

    def _told(self, what: str) -> str:
        if not self._last:
            return f"{what}; it logged nothing"
        return "\n".join((f"{what}; the last lines of its log:", *(f"  {line}" for line in self._last)))

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if it still runs."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def ended(self) -> int:
        """Its exit code, once it has ended and its output is read."""
        code = await self._process.wait()
        await asyncio.wait(self._readers)
        return code

    def kill_group(self) -> None:
        """Kills it and whatever it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def _read_records(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    if isinstance(record, dict):
                        self._records.put_nowait(record)
        finally:
            self._records.put_nowait(None)

    async def _read_log(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            self._last.append(line.decode(errors="replace").rstrip())


class Children:
    """All children of one run; a context manager that stops every one on the way out."""

    def __init__(self) -> None:
        self._running: list[Child] = []

    async def start(self, name: str, arguments: Sequence[str]) -> Child:
        """Starts ``context-broker`` with these arguments, in a process group of its own so that Ctrl-C stays here.

        The configuration of this process's environment is not handed on: a demo shows the defaults.
        """
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CONTEXT_BROKER_")}
        process = await asyncio.create_subprocess_exec(
            # -P: a folder that holds a "broker" of its own must not be imported from.
            *(sys.executable, "-P", "-m", "broker.cli", *arguments, "--exit-with-parent"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            process_group=0,
            limit=_LINE_BYTES,
        )
        child = Child(name, process)
        self._running.append(child)
        return child

    async def stop(self) -> dict[str, int]:
        """Stops every child, the last started first: SIGTERM, then SIGKILL after :data:`STOP_GRACE` seconds.

        Returns:
            Exit codes by name; negative: the signal that ended it.
        """
        running, self._running = self._running[::-1], []
        endings = {child.name: asyncio.ensure_future(child.ended()) for child in running}
        try:
            # Providers leave before the broker, the first one started, does: it then has no one to drain.
            for stage in (running[:-1], running[-1:]):
                for child in stage:
                    child.signal(signal.SIGTERM)
                if stage:
                    await asyncio.wait([endings[child.name] for child in stage], timeout=STOP_GRACE)
                for child in stage:
                    child.kill_group()
        finally:
            for child in running:
                child.kill_group()
        return {name: await ending for name, ending in endings.items()}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
