"""A broker in a process of its own, so that what is measured of it is its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.raw.asking import BODY
from tests.raw.http2 import RawClient, request_headers
from tests.rpc.peers import COMPOSE


class Daemon:
    """A running broker.

    Attributes:
        address: Where it listens.
    """

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.address = address
        self._process = process
        self._proc = Path(f"/proc/{process.pid}")

    @classmethod
    @contextmanager
    def running(cls, errors: Path, **config: dict[str, object]) -> Iterator[Daemon]:
        """Starts one and stops it, orderly.

        Args:
            errors: The file that its log goes to; every line of it is the broker's own, and none is a traceback.
            config: Sections of its configuration.
        """
        settings = {f"CONTEXT_BROKER_{s}__{key}".upper(): str(v) for s in config for key, v in config[s].items()}
        command = [sys.executable, "-m", "broker.cli", "serve", "--listen", "127.0.0.1:0", "--log-level", "warning"]
        with (
            errors.open("w") as log,
            subprocess.Popen(
                [*command, "--json"], stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | settings
            ) as process,
        ):
            try:
                assert process.stdout is not None
                yield cls(process, json.loads(process.stdout.readline())["address"])
            finally:
                process.terminate()
            assert process.wait(20) == 0
        for line in errors.read_text().splitlines():
            assert "traceback" not in json.loads(line)

    @property
    def files(self) -> int:
        """Open files and sockets."""
        return len(list((self._proc / "fd").iterdir()))

    @property
    def resident(self) -> float:
        """MiB that it has now."""
        return self._status("VmRSS")

    @property
    def processor_seconds(self) -> float:
        """What it has used of processors."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    @contextmanager
    def rising(self, allowed: float) -> Iterator[None]:
        """Holds that what it has never rises by more than so many MiB in the block."""
        (self._proc / "clear_refs").write_text("5")
        before = self.resident
        yield
        assert self._status("VmHWM") - before <= allowed

    def _status(self, key: str) -> float:
        found = re.search(rf"{key}:\s+(\d+) kB", (self._proc / "status").read_text())
        assert found is not None
        return int(found[1]) / 1024


async def serves(address: str, calls: int = 3) -> list[float]:
    """How long another client waits for each of its calls, in seconds; all are answered well."""
    loop = asyncio.get_running_loop()
    waits = []
    async with RawClient.connect(address) as client:
        for _ in range(calls):
            begun = loop.time()
            assert (await client.call(request_headers(COMPOSE), BODY)).status == "OK"
            waits.append(loop.time() - begun)
    return waits
