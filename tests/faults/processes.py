"""Real processes: a broker that is started, signalled and ended by its test, and actors of the tests' own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0
"""Seconds after which a process that should be ready or over counts as hung."""


class Process:
    """A process of this test's.

    Attributes:
        ready: What it wrote on its first line.
        errors: What it wrote on stderr.
    """

    def __init__(self, process: asyncio.subprocess.Process, ready: dict[str, object], errors: Path) -> None:
        self._process = process
        self.ready = ready
        self._errors = errors

    @property
    def address(self) -> str:
        """Where it listens."""
        return str(self.ready["address"])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def errors(self) -> str:
        """What it wrote on stderr so far."""
        return self._errors.read_text()

    @property
    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> int:
        """Files that it has open."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, unless it is over."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self) -> int:
        """Waits for its end; the exit code."""
        return await asyncio.wait_for(self._process.wait(), PATIENCE)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what tells nobody of its change, such as another process's descriptors."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(
    *command: str, errors: Path, env: Mapping[str, str] | None = None, wrapper: tuple[str, ...] = ()
) -> AsyncIterator[Process]:
    """A Python module with arguments, as a process that says in JSON when it is ready; killed at the end."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CONTEXT_BROKER_")}
    with errors.open("ab") as written:
        process = await asyncio.create_subprocess_exec(
            *wrapper,
            sys.executable,
            "-m",
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=written,
            cwd=ROOT,
            env={**environment, **(env or {})},
        )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        assert line, f"it did not get ready; see {errors}"
        yield Process(process, json.loads(line), errors)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def broker_process(
    folder: Path,
    *,
    settings: str = "",
    listen: str = "127.0.0.1:0",
    errors: Path | None = None,
    env: Mapping[str, str] | None = None,
    wrapper: tuple[str, ...] = (),
) -> contextlib.AbstractAsyncContextManager[Process]:
    """A broker of its own process, with a configuration file in ``folder`` that holds ``settings``.

    What it writes on stderr goes to ``errors``, or to ``broker.log`` in ``folder``.
    """
    config = folder / "broker.toml"
    config.write_text(settings)
    command = ("broker.cli", "serve", "--listen", listen, "--config", str(config), "--json", "--exit-with-parent")
    return running(*command, errors=errors or folder / "broker.log", env=env, wrapper=wrapper)
