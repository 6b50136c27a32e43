"""A TCP proxy between a client and a broker that can do to a connection what a network can.

Each connection gets the faults that stand when it is made; bytes are counted in each direction on their own, from 0.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

CHUNK = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What happens to one direction of a connection.

    Attributes:
        delay: Seconds that every piece waits.
        rate: Bytes a second that pass at most; None: any.
        cut_at: After so many bytes both directions are reset; None: never.
        swallow_at: What follows so many bytes is read and lost, and nothing is closed; None: nothing.
        corrupt_at: The byte of this number has its lowest bit turned over; None: none has.
    """

    delay: float = 0.0
    rate: float | None = None
    cut_at: int | None = None
    swallow_at: int | None = None
    corrupt_at: int | None = None


NONE = Faults()


class FaultProxy:
    """Listens on a port of loopback and passes on to one address.

    Attributes:
        address: Where it listens, once started.
        up: Faults of what clients send, for connections to come.
        down: Faults of what they get, likewise.
        target: Where connections to come are passed on to.
        on_cut: Called when ``cut_at`` has come, before anything is closed.
        passed: Bytes passed on so far, up and down.
        cuts: Connections reset by ``cut_at``.
    """

    def __init__(
        self,
        target: str,
        *,
        up: Faults = NONE,
        down: Faults = NONE,
        on_cut: Callable[[], None] = lambda: None,
    ) -> None:
        self.target = target
        self.address = ""
        self.up = up
        self.down = down
        self.on_cut = on_cut
        self.passed = [0, 0]
        self.cuts = 0
        self._cut_when: int | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Resets every connection that stands."""
        for connection in list(self._connections):
            connection.reset()

    def cut_when(self, passed: int) -> None:
        """Resets every connection that stands, once so many bytes in all have gone up."""
        self._cut_when = passed

    def swallow(self) -> None:
        """From now on what the connections that stand carry is lost, both ways; none is closed."""
        for connection in self._connections:
            connection.swallowing = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        host, _, port = self.target.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(writer, far_writer)
        self._connections.add(connection)
        try:
            await asyncio.gather(
                self._pump(connection, reader, far_writer, self.up, 0),
                self._pump(connection, far_reader, writer, self.down, 1),
            )
        finally:
            self._connections.discard(connection)
            connection.reset()

    async def _pump(
        self,
        connection: _Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        faults: Faults,
        way: int,
    ) -> None:
        seen = 0
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if faults.delay:
                    await asyncio.sleep(faults.delay)
                if faults.rate is not None:
                    await asyncio.sleep(len(data) / faults.rate)
                start, seen = seen, seen + len(data)
                if faults.corrupt_at is not None and start <= faults.corrupt_at < seen:
                    data = bytearray(data)
                    data[faults.corrupt_at - start] ^= 1
                if faults.swallow_at is not None and seen > faults.swallow_at:
                    data = data[: max(0, faults.swallow_at - start)]
                left = [] if faults.cut_at is None else [faults.cut_at - start]
                if self._cut_when is not None and way == 0:
                    left.append(self._cut_when - self.passed[0])
                cut = bool(left) and min(left) <= len(data)
                if cut:
                    data = data[: min(left)]
                if data and not connection.swallowing:
                    writer.write(data)
                    await writer.drain()
                    self.passed[way] += len(data)
                if cut:
                    self.cuts += 1
                    self.on_cut()
                    connection.reset()
                    return
            if not connection.swallowing:
                writer.close()


class _Connection:
    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers
        self.swallowing = False

    def reset(self) -> None:
        # A reset of TCP's throws away what the kernel still holds; a closing hands it over first.
        for writer in self._writers:
            writer.close()
